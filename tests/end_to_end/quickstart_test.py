#!/usr/bin/env python3
"""The quickstart as the README promises it, and what must be true of the run it leaves.

Usage: quickstart_test.py PROGRAM [unittest arguments]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = None
ROUNDS = 60  # of the 150 that it takes by default: play improves by 17 standard errors in them


class Quickstart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="pulseloco-quickstart-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, True)
        cls.run_dir = os.path.join(cls.dir, "run")
        cls.first = cls.quickstart()

    @classmethod
    def quickstart(cls):
        return subprocess.run(["bash", "launch/quickstart.sh", f"run.dir={cls.run_dir}", f"loco.rounds={ROUNDS}"],
                              cwd=ROOT, capture_output=True, text=True, timeout=900)

    def report(self):
        result = subprocess.run([PROGRAM, "report", self.run_dir, "--json"], capture_output=True,
                                text=True, timeout=60, check=True)
        return json.loads(result.stdout)

    def test_it_ends_well_with_its_table(self):
        self.assertEqual(self.first.returncode, 0, self.first.stderr[-3000:])
        for row in ("win rate before", "win rate after", "dense DiLoCo, same H", "DDP, same H",
                    "full BF16 checkpoint", "digest, trainers", "digest, follower-0", "digest, follower-1"):
            self.assertIn(row, self.first.stdout)

    def test_the_run_lies_where_the_readme_says(self):
        for name in ("config.yaml", "metrics.jsonl", "initial.safetensors", "final.safetensors", "bucket",
                     "follower-0/current.safetensors", "follower-1/current.safetensors"):
            self.assertTrue(os.path.exists(os.path.join(self.run_dir, name)), name)

    def test_every_version_was_rebuilt_bit_for_bit_by_both_followers(self):
        report = self.report()
        self.assertEqual(report["versions"], report["rounds"] + 1)
        self.assertEqual(len(report["followers"]), 2)
        for follower in report["followers"]:
            self.assertEqual(follower["versions"], report["versions"])
            self.assertEqual(follower["mismatches"], 0)
            self.assertEqual(follower["last_digest"], report["last_digest"])

    def test_play_improves_by_far_more_than_its_noise(self):
        # Both ends play the same 4000 games' secrets and openings, so 5 standard errors of independent
        # samples is a strict bar.
        report = self.report()
        self.assertGreaterEqual(report["initial"]["games"], 4000)
        self.assertGreater(report["significance"], 5)

    def test_the_rebuilt_file_plays_exactly_as_the_trainers_weights(self):
        report = self.report()
        self.assertEqual(report["followers"][0]["evaluation"], report["final"])

    def test_the_exchange_is_smaller_than_dense_and_the_patch_than_the_checkpoint(self):
        report = self.report()
        self.assertLess(report["received_bytes_per_round"], report["dense_diloco_bytes"])
        self.assertLess(report["received_bytes_per_round"], report["ddp_bytes"])
        self.assertLess(report["patch_bytes"], report["checkpoint_bytes"])

    def test_verify_finds_nothing_wrong(self):
        result = subprocess.run([PROGRAM, "verify", os.path.join(self.run_dir, "bucket")],
                                capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("0 problems", result.stdout)

    def test_a_second_call_finds_it_done(self):
        before = os.stat(os.path.join(self.run_dir, "final.safetensors")).st_mtime_ns
        second = self.quickstart()
        self.assertEqual(second.returncode, 0, second.stderr[-3000:])
        self.assertIn("holds a finished run", second.stdout)
        self.assertEqual(os.stat(os.path.join(self.run_dir, "final.safetensors")).st_mtime_ns, before)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
