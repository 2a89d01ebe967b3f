#!/usr/bin/env python3
"""Real kills of real ranks under mpirun, and the way back: --resume, and launch/train.sh.

Usage: resume_test.py PROGRAM [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = None
SCRIPT = str(pathlib.Path(__file__).resolve().parents[2] / "launch" / "train.sh")
ROUNDS = 40
CONFIG = """
run: {dir: RUN, name: test, seed: 7}
loco: {rounds: %d, local_steps: 3, deadline: 20s}
adam: {learning_rate: 3e-5}
trainer: {kind: synthetic, elements: 200000}
checkpoint: {every: 3}
evaluate: {samples: 0}
""" % ROUNDS


class Resume(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-resume-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "PROGRAM": PROGRAM,
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "MPIRUN": "mpirun --oversubscribe --bind-to none"}

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def config(self, name):
        with open(self.path(f"{name}.yaml"), "w") as f:
            f.write(CONFIG.replace("RUN", self.path(name)))
        return self.path(f"{name}.yaml")

    def popen(self, *words, **more):
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env={**self.environment, **more}, start_new_session=True)

    def start(self, name, *options, ranks=3):
        return self.popen(*self.environment["MPIRUN"].split(), "-n", str(ranks), PROGRAM, "train",
                          self.config(name), *options)

    def train(self, name, *options, expect=0, ranks=3):
        process = self.start(name, *options, ranks=ranks)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, expect, err)
        return err

    def records(self, name, kind):
        with open(self.path(name, "metrics.jsonl")) as f:
            lines = f.read().split("\n")[:-1]
        return [r for r in map(json.loads, lines) if r["type"] == kind]

    def rounds(self, name):
        try:
            return len(self.records(name, "round"))
        except OSError:
            return 0

    def ranks(self):
        """Pids of the program's ranks of this test, by rank."""
        found = {}
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    words = f.read().decode().split("\0")
                if words[0] != PROGRAM or not any(w.startswith(self.dir) for w in words):
                    continue
                with open(f"/proc/{entry}/environ", "rb") as f:
                    for word in f.read().split(b"\0"):
                        if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                            found[int(word.split(b"=")[1])] = int(entry)
            except (OSError, IndexError):
                pass  # not a process, or gone meanwhile
        return found

    def kill(self, name, rank, at_round, process, how=signal.SIGKILL):
        deadline = time.monotonic() + 60
        while self.rounds(name) < at_round or rank not in self.ranks():
            self.assertIsNone(process.poll(), "the job ended early")
            self.assertLess(time.monotonic(), deadline, "no rounds")
            time.sleep(0.01)  # another process's file: there is nothing to wait on
        os.kill(self.ranks()[rank], how)

    def expect_same(self, name, unbroken):
        for key in ("theta_digest", "round"):
            self.assertEqual([r[key] for r in self.records(name, "round")],
                             [r[key] for r in self.records(unbroken, "round")])
        versions = {run: {r["round"]: r["digest"] for r in self.records(run, "version")}
                    for run in (name, unbroken)}
        self.assertEqual(versions[name], versions[unbroken])
        self.assertEqual(len(versions[name]), ROUNDS + 1)
        for run in (name, unbroken):
            with open(self.path(run, "final.safetensors"), "rb") as f:
                versions[run] = f.read()
        self.assertEqual(versions[name], versions[unbroken])

    def test_a_run_killed_twice_ends_with_the_bits_of_an_unbroken_one(self):
        self.train("unbroken")
        process = self.start("killed")
        self.kill("killed", 1, 8, process)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        process = self.start("killed", "--resume")
        self.kill("killed", 0, 20, process)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.train("killed", "--resume")
        self.expect_same("killed", "unbroken")
        resumed = [r["round"] for r in self.records("killed", "resume")]
        self.assertEqual(len(resumed), 2)
        self.assertTrue(all(at % 3 == 0 for at in resumed), resumed)
        verified = subprocess.run([PROGRAM, "verify", self.path("killed", "bucket")], timeout=60,
                                  capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertIn(f"{ROUNDS + 1} versions", verified.stdout)

    def test_what_can_not_be_resumed_says_why(self):
        self.train("run", "--set", "loco.rounds=3")
        self.assertIn("--resume", self.train("run", expect=2))
        err = self.train("run", "--resume", "--set", "adam.learning_rate=1e-5", expect=2)
        self.assertIn("inner.learning_rate is 3e-05 there and 1e-05 here", err)
        err = self.train("run", "--resume", expect=2, ranks=2)
        self.assertIn("is of 3 trainers; this job has 2", err)

    def test_trainers_of_more_ranks_give_the_same_bits_also_after_a_resume(self):
        parts = ("--set", "trainer.micro_batches=2", "--set", "loco.rounds=6")
        two = ("--set", "loco.ranks_per_trainer=2")
        self.train("one", *parts, ranks=2)
        self.train("two", *parts, *two, ranks=4)
        self.train("changing", *parts[:3], "loco.rounds=4", ranks=2)
        self.train("changing", *parts, *two, "--resume", ranks=4)
        def bits(run):
            with open(self.path(run, "final.safetensors"), "rb") as f:
                return f.read(), [r["theta_digest"] for r in self.records(run, "round")]
        self.assertEqual(bits("two"), bits("one"))
        for run, parts_of_each in (("one", 1), ("two", 2)):  # each rank of the first trainer uploads its share
            anchors = {path.name for path in pathlib.Path(self.path(run, "bucket")).rglob("anchor-*.safetensors")}
            self.assertEqual(len(anchors), parts_of_each)
            self.assertEqual(subprocess.run([PROGRAM, "verify", self.path(run, "bucket")], timeout=60,
                                            stdout=subprocess.DEVNULL).returncode, 0)
        self.assertEqual([r["digest"] for r in self.records("two", "version")],
                         [r["digest"] for r in self.records("one", "version")])
        self.assertEqual(bits("changing"), bits("one"))
        self.assertIn("can't be shared out", self.train("odd", *parts, *two, ranks=3, expect=2))
        self.assertIn("ranks_per_trainer is 2", self.train("few", *two, ranks=2, expect=2))

    def test_the_script_restarts_after_a_kill_and_after_a_hang(self):
        self.train("unbroken")
        process = self.popen("bash", SCRIPT, "3", self.config("run"), "--set", "loco.deadline=3s")
        self.kill("run", 2, 5, process)
        self.kill("run", 1, 15, process, signal.SIGSTOP)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("rank 2 on ", err)
        self.assertIn("was killed by signal 9", err)
        self.assertIn("code 8; starting again from the last checkpoint (2 of 3)", err)
        self.expect_same("run", "unbroken")

    def test_the_script_gives_up_after_the_restarts_it_was_given(self):
        process = self.popen("bash", SCRIPT, "3", self.config("run"), RESTARTS="0")
        self.kill("run", 2, 2, process)
        _, err = process.communicate(timeout=60)
        self.assertGreater(process.returncode, 128, err)
        self.assertIn("gave up after 0 restarts", err)

    def test_the_script_does_not_repeat_what_can_not_work(self):
        process = self.popen("bash", SCRIPT, "2", self.config("run"), "--set", "loco.round=3")
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2, err)
        self.assertNotIn("starting again", err)

    def test_the_script_stops_cleanly_when_asked_to(self):
        process = self.popen("bash", SCRIPT, "2", self.config("run"), "--set", "loco.rounds=100000")
        self.kill("run", 0, 2, process, how=0)  # alive
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertNotIn("starting again", err)
        self.assertEqual(self.ranks(), {})
        self.train("run", "--resume", "--set", f"loco.rounds={self.rounds('run') + 1}", ranks=2)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
