#!/usr/bin/env python3
"""`pulseloco train` under mpirun with the synthetic trainer: real ranks, a real bucket, real kills.

Usage: train_test.py PROGRAM [unittest arguments]
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

PROGRAM = None
USAGE, TIMED_OUT, INTERRUPTED = 2, 8, 130
CONFIG = """
run: {dir: RUN, name: test, seed: 7}
loco: {rounds: 6, local_steps: 4, deadline: 60s}
adam: {learning_rate: 3e-5}
trainer: {kind: synthetic, elements: 300000}
evaluate: {samples: 0}
"""


def mpirun(ranks, *args):
    return ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", PROGRAM, *args]


class Training(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-train-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def start(self, name, ranks, *settings, config=CONFIG):
        with open(self.path(f"{name}.yaml"), "w") as f:
            f.write(config.replace("RUN", self.path(name)))
        overrides = [word for setting in settings for word in ("--set", setting)]
        return subprocess.Popen(mpirun(ranks, "train", self.path(f"{name}.yaml"), *overrides),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment, start_new_session=True)

    def train(self, name, ranks, *settings, expect=0):
        process = self.start(name, ranks, *settings)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, expect, err)
        return err

    def program(self, *args, expect=0):
        result = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, cwd=self.dir)
        self.assertEqual(result.returncode, expect, result.stderr)
        return result.stdout

    def records(self, name, kind, file="metrics.jsonl"):
        with open(self.path(name, file)) as f:
            return [r for r in map(json.loads, f) if r["type"] == kind]

    def weights(self, name, file="final.safetensors"):
        with open(self.path(name, file), "rb") as f:
            return f.read()

    def test_same_seed_same_bytes_whatever_the_kernels(self):
        self.train("a", 3)
        self.train("b", 3)
        self.train("c", 3, "kernels=reference")
        self.train("d", 3, "run.seed=8")
        self.assertEqual(self.weights("a"), self.weights("b"))
        self.assertEqual(self.weights("a"), self.weights("c"))
        self.assertNotEqual(self.weights("a"), self.weights("d"))
        self.assertNotEqual(self.weights("a"), self.weights("a", "initial.safetensors"))

    def test_an_open_gate_is_diloco_bit_for_bit(self):
        self.train("open", 2, "loco.open_gate=true")
        self.train("diloco", 2, "loco.mode=diloco")
        self.train("ddp", 2, "loco.mode=ddp")
        self.train("pulse", 2)
        self.assertEqual(self.weights("open"), self.weights("diloco"))
        self.assertNotEqual(self.weights("pulse"), self.weights("diloco"))
        table = self.program("report", "pulse", "diloco", "ddp")
        for word in ("pulseloco", "diloco", "ddp", "gate passes"):
            self.assertIn(word, table)

    def test_followers_rebuild_every_version_while_the_job_runs(self):
        followers = []
        for i in range(2):
            os.makedirs(self.path("run", f"follower-{i}"))
            followers.append(subprocess.Popen(
                [PROGRAM, "follow", "--bucket", self.path("run", "bucket"), "--run", "test",
                 "--out", self.path("run", f"follower-{i}", "current.safetensors"), "--every-version",
                 "--until-final", "--wait", "--poll", "20ms",
                 "--record", self.path("run", f"follower-{i}", "versions.jsonl")],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        self.train("run", 2, "loco.rounds=12")
        published = {r["version"]: r["digest"] for r in self.records("run", "version")}
        self.assertEqual(len(published), 13)  # the start and twelve rounds
        for i, follower in enumerate(followers):
            _, err = follower.communicate(timeout=60)
            self.assertEqual(follower.returncode, 0, err)
            rebuilt = {r["version"]: r["digest"]
                       for r in self.records("run", "version", f"follower-{i}/versions.jsonl")}
            self.assertEqual(rebuilt, published)
        self.assertIn("13 versions", self.program("verify", "run/bucket"))
        summary = json.loads(self.program("report", "run", "--json"))
        self.assertEqual([f["mismatches"] for f in summary["followers"]], [0, 0])
        self.assertTrue(summary["finished"])

    def test_what_can_not_start_is_one_line_and_no_hang(self):
        for settings, word in ((("loco.sites=[0,0,1]",), "sites"), (("loco.local_step=1",), "local_step"),
                               (("publish.bucket=gopher://x",), "gopher"), (("kernels=abacus",), "abacus")):
            err = self.train("bad", 2, *settings, expect=11 if "gopher" in word else USAGE)
            lines = [line for line in err.splitlines() if line.startswith("pulseloco: ")]
            self.assertEqual(len(lines), 1, err)
            self.assertIn(word, lines[0])
        open(self.path("file"), "w").close()
        process = self.start("bad", 2, f"run.dir={self.path('file', 'x')}")
        _, err = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(len([l for l in err.splitlines() if l.startswith("pulseloco: ")]), 1, err)

    def test_a_run_is_never_overwritten(self):
        self.train("run", 1)
        before = self.weights("run")
        self.assertIn("holds a run already", self.train("run", 1, expect=USAGE))
        self.assertEqual(self.weights("run"), before)

    def wait_for_rounds(self, name, rounds, process):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.assertIsNone(process.poll(), "the job ended early")
            try:
                if len(self.records(name, "round")) >= rounds:
                    return
            except (OSError, ValueError):
                pass  # not there yet, or a line half-written
            time.sleep(0.02)  # another process's file: there is nothing to wait on
        self.fail("no rounds")

    def ranks_of(self, process):
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in children.stdout.split()]

    def test_a_killed_rank_ends_the_job_and_leaves_the_bucket_whole(self):
        process = self.start("run", 3, "loco.rounds=100000")
        self.wait_for_rounds("run", 2, process)
        os.kill(self.ranks_of(process)[1], signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("0 problems", self.program("verify", "run/bucket"))
        self.assertFalse(os.path.exists(self.path("run", "final.safetensors")))

    def test_a_stopped_rank_is_named_within_the_deadline(self):
        process = self.start("run", 3, "loco.rounds=100000", "loco.deadline=2s")
        self.wait_for_rounds("run", 2, process)
        os.kill(self.ranks_of(process)[2], signal.SIGSTOP)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, TIMED_OUT, err)
        self.assertIn("rank 2", err)

    def test_sigterm_stops_after_the_round_with_everything_written(self):
        process = self.start("run", 2, "loco.rounds=100000")
        self.wait_for_rounds("run", 2, process)
        os.kill(self.ranks_of(process)[0], signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.assertIn("stopped on request", err)
        self.assertTrue(self.records("run", "end")[0]["stopped"])
        self.assertTrue(os.path.exists(self.path("run", "final.safetensors")))
        self.assertIn("0 problems", self.program("verify", "run/bucket"))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
