#!/usr/bin/env python3
"""Every command keeps the bound of --memory, though the checkpoint is larger than it.

Usage: memory_test.py PROGRAM [unittest arguments]
"""
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors_file

PROGRAM = None
BOUND_MIB = 192  # the least that --memory takes
TENSOR_BYTES = 160 << 20  # two of them: a copy of either half, or of a cell per version, would show


def anonymous_mib(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("RssAnon:")), 0) / 1024
    except OSError:
        return 0


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="pulseloco-memory-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, True)
        words = random.Random(1).randbytes(TENSOR_BYTES)
        changed = bytearray(words)
        for start in range(0, 1024, 100):  # the low byte of one BF16 word in 51
            changed[start::1024] = changed[start::1024].translate(bytes((i + 1) % 256 for i in range(256)))
        for name, raw in (("a", words), ("b", bytes(changed))):
            safetensors_file.write(os.path.join(cls.dir, name), [
                ("one", "BF16", [TENSOR_BYTES // 2], raw), ("two", "BF16", [TENSOR_BYTES // 2], words)])

    def peak(self, *args):
        process = subprocess.Popen([PROGRAM, *args], cwd=self.dir, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        peak = 0
        while process.poll() is None:
            peak = max(peak, anonymous_mib(process.pid))
            time.sleep(0.002)  # a sample of another process: there is nothing to wait on
        self.assertEqual(process.returncode, 0, process.stderr.read())
        process.stderr.close()
        return peak

    def check(self, *args):
        self.assertLess(self.peak(*args, "--memory", str(BOUND_MIB)), BOUND_MIB, args)

    def weights(self, name):
        with open(os.path.join(self.dir, name), "rb") as f:
            f.seek(-2 * TENSOR_BYTES, os.SEEK_END)
            return hashlib.sha256(f.read()).hexdigest()

    def test_diff_and_apply(self):
        self.check("diff", "a", "b", "-o", "patch")
        self.check("apply", "a", "patch", "-o", "out")
        self.assertEqual(self.weights("out"), self.weights("b"))

    def test_publish_and_follow(self):
        for name, state in (("with", ("--state", "state")), ("without", ())):
            for number, model in enumerate(("a", "b", "a"), 1):
                self.check("publish", "--bucket", name, "--model", model, *state)
                self.check("follow", "--bucket", name, "--out", f"{name}.copy", "--version", str(number))
        self.assertEqual(self.weights("with.copy"), self.weights("a"))
        self.assertEqual(self.weights("without.copy"), self.weights("a"))
        self.check("follow", "--bucket", "with", "--out", "late", "--once", "--layout", "folder")
        self.check("verify", "without")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
