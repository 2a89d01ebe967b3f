#!/usr/bin/env python3
"""The safetensors package reads every file that we write, and we read what it writes.

Usage: build/venv/bin/python safetensors_package_test.py PROGRAM [unittest arguments]
"""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import safetensors

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]
import foreign_models
import safetensors_file

PROGRAM = None
# The package's names for writing.
DTYPES = {"BF16": "bfloat16", "F32": "float32", "F16": "float16", "I64": "int64", "U8": "uint8",
          "F8_E4M3": "float8_e4m3fn"}


class Package(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-safetensors-")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def run_program(self, *args):
        result = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120, cwd=self.dir)
        self.assertEqual(result.returncode, 0, f"{args}\n{result.stdout}\n{result.stderr}")

    def package_writes(self, name, model):
        buffers = [ctypes.create_string_buffer(raw, max(1, len(raw))) for _, _, _, raw in model]
        tensors = {n: safetensors.TensorSpec(dtype=DTYPES[dtype], shape=shape, data_ptr=ctypes.addressof(buffer),
                                             data_len=len(raw))
                   for (n, dtype, shape, raw), buffer in zip(model, buffers)}
        safetensors.serialize_file(tensors, self.path(name), {"format": "pt"})
        return self.path(name)

    def package_reads(self, path):
        with open(path, "rb") as f:
            read = safetensors.deserialize(f.read())
        return {name: (t["dtype"], list(t["shape"]), bytes(t["data"])) for name, t in read}

    def test_we_read_what_it_writes_and_it_reads_what_we_write(self):
        files = 0
        for kind, formats in (("mixed", ("hf-delta-dir", "hf-delta-dir:xor")), ("bf16", ("trl-v1", "trl-v3", "trl-v3:raw"))):
            states = foreign_models.chain(kind, 21, 3)
            states.append(states[-1])  # a version in which nothing changes
            bucket = self.path(f"bucket-{kind}")
            for i, state in enumerate(states):
                self.run_program("publish", "--bucket", bucket, "--model", self.package_writes(f"{i}", state),
                                 *(["--anchor"] if i == 2 else []))
            self.run_program("follow", "--bucket", bucket, "--once", "--out", self.path(f"{kind}.safetensors"))
            self.assertEqual(self.package_reads(self.path(f"{kind}.safetensors")),
                             {name: (dtype, shape, raw) for name, dtype, shape, raw in states[-1]})
            self.run_program("diff", self.path("0"), self.path("1"), "-o", self.path(f"patch-{kind}.safetensors"))
            for choice in formats:
                self.run_program("convert", bucket, "--to", choice, "-o", self.path(f"out-{choice}"))
        for folder, _, names in os.walk(self.dir):
            for name in names:
                if name.endswith(".safetensors"):
                    path = os.path.join(folder, name)
                    self.assertEqual(self.package_reads(path), safetensors_file.read(path)[1], path)
                    with safetensors.safe_open(path, framework="numpy") as opened:
                        self.assertEqual(opened.metadata() or {}, safetensors_file.read(path)[0])
                    files += 1
        self.assertGreater(files, 25)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
