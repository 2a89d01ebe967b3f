#!/usr/bin/env python3
"""One data budget in the three modes: what the comparison's table must show, at a small size.

Usage: compare_test.py PROGRAM [unittest arguments]
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODES = ("pulseloco", "diloco", "ddp")
PROGRAM = None


class Compare(unittest.TestCase):
    def test_all_modes_learn_from_one_budget_and_pulseloco_receives_least(self):
        folder = tempfile.mkdtemp(prefix="pulseloco-compare-")
        self.addCleanup(shutil.rmtree, folder, True)
        prefix = os.path.join(folder, "run")
        result = subprocess.run(
            ["bash", "launch/compare.sh", f"run.dir={prefix}", "loco.rounds=5", "evaluate.samples=200",
             "trainer.warm_start_steps=40"], cwd=ROOT, capture_output=True, text=True, timeout=600)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        for word in (*MODES, "win rate after", "received per rank and round"):
            self.assertIn(word, result.stdout)
        report = subprocess.run([PROGRAM, "report", "--json", *(f"{prefix}-{mode}" for mode in MODES)],
                                capture_output=True, text=True, timeout=60, check=True)
        runs = {run["mode"]: run for run in json.loads(report.stdout)}
        self.assertEqual(set(runs), set(MODES))
        starts = [run["initial"] for run in runs.values()]
        self.assertEqual(starts, [starts[0]] * 3)  # the same weights and the same games
        received = [runs[mode]["received_bytes_per_round"] for mode in MODES]
        self.assertEqual(received, sorted(received))
        for mode in ("diloco", "ddp"):  # the formula is what the exchange counts
            self.assertAlmostEqual(runs[mode]["received_bytes_per_round"],
                                   runs[mode][f"{'dense_diloco' if mode == 'diloco' else 'ddp'}_bytes"],
                                   delta=100)

    def test_what_was_interrupted_continues_with_the_same_bits(self):
        folder = tempfile.mkdtemp(prefix="pulseloco-compare-")
        self.addCleanup(shutil.rmtree, folder, True)

        def compare(name, kill_at_round=None, how=signal.SIGINT):
            process = subprocess.Popen(
                ["bash", "launch/compare.sh", f"run.dir={folder}/{name}", "loco.rounds=6", "loco.local_steps=2",
                 "evaluate.samples=0", "trainer.warm_start_steps=4", "checkpoint.every=2"],
                cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
            deadline = time.monotonic() + 120
            while kill_at_round is not None and len(self.rounds(folder, name)) < kill_at_round:
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)  # another process's file: there is nothing to wait on
            if kill_at_round is not None:
                os.killpg(process.pid, how)  # as a terminal does, or worse
            _, err = process.communicate(timeout=600)
            return process.returncode, err

        self.assertEqual(compare("unbroken")[0], 0)
        for at_round, how in ((1, signal.SIGINT), (4, signal.SIGKILL)):
            self.assertNotEqual(compare("broken", at_round, how)[0], 0)
        code, err = compare("broken")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.rounds(folder, "broken"), self.rounds(folder, "unbroken"))

    def rounds(self, folder, name):
        """Digests of theta of the first mode's rounds."""
        try:
            with open(f"{folder}/{name}-{MODES[0]}/metrics.jsonl") as f:
                records = [json.loads(line) for line in f if line.endswith("\n")]
        except OSError:
            return []
        return [(r["round"], r["theta_digest"]) for r in records if r["type"] == "round"]


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
