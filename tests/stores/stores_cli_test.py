#!/usr/bin/env python3
"""The program against buckets across the network, and the aws client beside it.

Usage: stores_cli_test.py PROGRAM [unittest arguments]
Runs itself with the Python of build/venv, which tests/stores/make_venv.sh makes.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parent.parent / "build" / "venv" / "bin" / "python"
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]
from child import die_with_parent  # noqa: E402
import cli_test  # noqa: E402
import safetensors_file  # noqa: E402

PROGRAM = None
NOT_FOUND, STALE, NO_PERMISSION = 3, 5, 10
KEYS = {"AWS_ACCESS_KEY_ID": "WRITER", "AWS_SECRET_ACCESS_KEY": "writer"}
REGION = {"AWS_DEFAULT_REGION": "us-east-1"}


class Stores(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-stores-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.rng = random.Random(1)
        self.tensors = cli_test.model(self.rng, elements=300_000)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def serve(self, script, *arguments):
        """Starts a server of this folder; its address. Ended with the test."""
        process = subprocess.Popen([PYTHON, HERE / script, *arguments], stdout=subprocess.PIPE, text=True,
                                   preexec_fn=die_with_parent)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return f"http://127.0.0.1:{int(process.stdout.readline())}"

    def run_program(self, *arguments, environment=KEYS, code=0):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "HF_"))}
        done = subprocess.run([PROGRAM, *arguments], env={**clean, "HOME": self.dir, **environment}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def publish(self, bucket, *more, **kwargs):
        safetensors_file.write(self.path("model.safetensors"), self.tensors)
        return self.run_program("publish", "--bucket", bucket, "--model", self.path("model.safetensors"), "--json",
                                *more, **kwargs)

    def check_follow(self, bucket, **kwargs):
        out = self.path("out.safetensors")
        self.run_program("follow", "--bucket", bucket, "--out", out, "--once", **kwargs)
        self.assertTrue(safetensors_file.read(out)[1] == safetensors_file.read(self.path("model.safetensors"))[1])

    def aws(self, endpoint, *arguments):
        done = subprocess.run([PYTHON, PYTHON.with_name("aws"), "--endpoint-url", endpoint, "s3", *arguments],
                              env={**os.environ, **KEYS, **REGION, "HOME": self.dir}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_command_works_on_s3(self):
        bucket = f"s3://bucket/some/where?endpoint={self.serve('s3_server.py')}"
        self.assertIn("nothing was ever published",
                      self.run_program("follow", "--bucket", bucket, "--out", self.path("x"), "--once", code=NOT_FOUND))
        for _ in range(3):
            self.publish(bucket, "--state", self.path("state"))
            self.check_follow(bucket)
            self.tensors = cli_test.nudge(self.rng, self.tensors)
        self.run_program("verify", bucket)
        self.assertIn("main", self.run_program("inspect", bucket))
        planned = json.loads(self.run_program("gc", bucket, "--dry-run", "--json"))
        self.assertEqual(planned["errors"], [])

    def test_the_aws_client_reads_what_we_write_and_writes_what_we_read(self):
        endpoint = self.serve("s3_server.py")
        self.publish(f"s3://bucket/ours?endpoint={endpoint}")
        self.tensors = cli_test.nudge(self.rng, self.tensors)
        self.publish(f"s3://bucket/ours?endpoint={endpoint}")
        listed = self.aws(endpoint, "ls", "--recursive", "s3://bucket/ours/")
        self.assertEqual(listed.count("manifest.json"), 2, listed)
        self.assertEqual(listed.count("/HEAD"), 1, listed)
        self.aws(endpoint, "cp", "--recursive", "s3://bucket/ours/", self.path("copy"))
        self.run_program("verify", self.path("copy"))
        self.aws(endpoint, "cp", "--recursive", self.path("copy"), "s3://bucket/theirs/")
        self.run_program("verify", f"s3://bucket/theirs?endpoint={endpoint}")
        self.check_follow(f"s3://bucket/theirs?endpoint={endpoint}")

    def test_a_store_without_conditions_needs_a_promise(self):
        bucket = f"s3://bucket/p?endpoint={self.serve('rclone_server.py')}"
        refused = self.publish(bucket, code=STALE)
        self.assertIn("ignores conditional puts", refused)
        self.assertIn("--single-writer", refused)
        for _ in range(2):
            self.publish(bucket, "--single-writer")
            self.check_follow(bucket)
            self.tensors = cli_test.nudge(self.rng, self.tensors)

    def test_a_web_server_serves_a_bucket(self):
        os.mkdir(self.path("served"))
        server = self.serve("nginx_server.py", self.path("served"), self.path("scratch"))
        for _ in range(2):
            self.publish(self.path("served", "b"))
            self.check_follow(f"{server}/b", environment={})
            self.tensors = cli_test.nudge(self.rng, self.tensors)
        self.assertIn("can only be read", self.publish(f"{server}/b", "--single-writer", environment={},
                                                       code=NO_PERMISSION))

    def test_no_secret_is_ever_shown(self):
        endpoint = self.serve("s3_server.py")
        secrets = {"AWS_ACCESS_KEY_ID": "WRITER", "AWS_SECRET_ACCESS_KEY": "wrong/secret+value"}
        for arguments in (["verify"], ["inspect"], ["gc", "--dry-run", "--json"]):
            said = self.run_program(arguments[0], f"s3://bucket?endpoint={endpoint}", *arguments[1:],
                                    environment=secrets, code=NO_PERMISSION)
            for secret in secrets.values():
                self.assertNotIn(secret, said)
        said = self.publish(f"s3://bucket?endpoint={endpoint}", "--log-level", "trace",
                            environment=secrets, code=NO_PERMISSION)
        self.assertNotIn("wrong/secret", said)

    def test_bench_sync_measures_and_leaves_nothing_behind(self):
        endpoint = self.serve("s3_server.py")
        bucket = f"s3://bucket/bench?endpoint={endpoint}"
        report = json.loads(self.run_program("bench", "sync", "--bucket", bucket, "--json", "--object", "1",
                                             "--repeats", "2", "--parameters", "100000"))
        operations = {o["operation"]: o for o in report["operations"]}
        self.assertEqual(set(operations), {"put", "get", "list", "conditional put", "publish to ready, first",
                                           "publish, delta", "follow, delta", "publish to ready, delta"})
        self.assertTrue(all(o["median_seconds"] > 0 for o in report["operations"]))
        self.assertEqual(operations["put"]["bytes"], 1 << 20)
        self.assertLess(operations["publish, delta"]["bytes"], 20_000)  # 1 % of 200 kB, and a header
        self.assertEqual(self.aws(endpoint, "ls", "--recursive", "s3://bucket"), "")


def main():
    global PROGRAM
    if not PYTHON.exists():
        sys.exit(f"{PYTHON} is missing: `bash tests/stores/make_venv.sh` makes it")
    if pathlib.Path(sys.prefix) != PYTHON.parent.parent:
        os.execv(PYTHON, [PYTHON, __file__, *sys.argv[1:]])
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()


if __name__ == "__main__":
    main()
