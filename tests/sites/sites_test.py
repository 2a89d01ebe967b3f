#!/usr/bin/env python3
"""launch/sites.py: ranks in namespaces, links of a set rate and delay, counters, and nothing left.

Usage: sites_test.py PROGRAM DELAY_RELAY [unittest arguments]
Exit code 77 where `sites.py --probe` says that the machine can't make namespaces.
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
SITES = os.path.join(ROOT, "launch", "sites.py")
PROGRAM = RELAY = None
CONFIG = """
run: {dir: RUN, name: test, seed: 7}
loco: {rounds: 4, local_steps: 4, deadline: 60s}
adam: {learning_rate: 3e-5}
trainer: {kind: synthetic, elements: 400000}
publish: {enabled: false}
evaluate: {samples: 0}
"""


def sites(*options, program):
    return [sys.executable, SITES, "--relay", RELAY, *options, "--", *program]


def namespaces():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if line.startswith("pulseloco-")]


class Sites(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-sites-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.counters = os.path.join(self.dir, "counters.json")

    def tearDown(self):
        self.assertEqual(namespaces(), [])

    def run_sites(self, *options, program, expect=0):
        result = subprocess.run(sites("--counters", self.counters, *options, program=program),
                                capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, expect, result.stderr)
        return result

    def train(self, name, *settings):
        config = os.path.join(self.dir, f"{name}.yaml")
        with open(config, "w") as f:
            f.write(CONFIG.replace("RUN", os.path.join(self.dir, name)))
        return [PROGRAM, "train", config, *(w for s in settings for w in ("--set", s))]

    def final_weights(self, name):
        with open(os.path.join(self.dir, name, "final.safetensors"), "rb") as f:
            return f.read()

    def link(self, host):
        with open(self.counters) as f:
            return json.load(f)["links"][host]

    def test_each_rank_sees_its_own_host_and_only_its_own_link(self):
        out = self.run_sites("--sites", "3", "--ranks-per-site", "2", program=["hostname"]).stdout
        self.assertEqual(sorted(out.split()), ["site0", "site0", "site1", "site1", "site2", "site2"])

    def test_the_programs_exit_code_is_passed_on(self):
        self.run_sites("--sites", "2", program=["sh", "-c", "exit 3"], expect=3)

    def test_training_across_sites_gives_the_bytes_of_training_on_one_host(self):
        self.run_sites("--sites", "3", program=self.train("apart"))
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        subprocess.run(["mpirun", "-n", "3", "--oversubscribe", "--bind-to", "none",
                        *self.train("together")], check=True, capture_output=True, env=environment)
        self.assertEqual(self.final_weights("apart"), self.final_weights("together"))

    def test_the_links_carry_the_payload_and_little_else(self):
        self.run_sites("--sites", "3", program=self.train("run"))
        with open(os.path.join(self.dir, "run", "metrics.jsonl")) as f:
            rounds = [r for r in map(json.loads, f) if r["type"] == "round"]
        payload = sum(r["received_bytes"] for r in rounds)  # of rank 0
        wire = self.link("site0")["received"]
        self.assertGreater(wire, payload)
        self.assertLess(wire, 1.1 * payload + 100_000)

    def test_a_slow_link_is_slow(self):
        message = "head -c 2000000 /dev/zero"
        begin = time.monotonic()
        self.run_sites("--sites", "2", "--rate", "10mbit",
                       program=["sh", "-c", f'[ "$(hostname)" = site0 ] || {message}'])
        # 2 MB of output come back to mpirun over a link of 1.25 MB/s.
        self.assertGreater(time.monotonic() - begin, 1.4)
        self.assertGreater(self.link("site1")["sent"], 2_000_000)

    def test_a_delay_delays_each_way(self):
        ping = 'ping -c 3 -q site1 | sed -n "s@.*= \\([0-9]*\\).*@\\1@p"'
        out = self.run_sites("--sites", "2", "--delay-ms", "30",
                             program=["sh", "-c", f'[ "$(hostname)" = site1 ] || {ping}']).stdout
        # The least of three round trips: two links each way.
        self.assertGreaterEqual(int(out), 120)
        self.assertLess(int(out), 400)

    def test_training_goes_over_delayed_links(self):
        self.run_sites("--sites", "2", "--delay-ms", "25", program=self.train("far"))
        self.assertTrue(os.path.exists(os.path.join(self.dir, "far", "final.safetensors")))

    def test_an_interrupted_run_leaves_nothing(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(sites("--sites", "2", program=["sh", "-c", "echo started; sleep 60"]),
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       start_new_session=True)
            self.assertEqual(process.stdout.readline(), "started\n")
            if how == signal.SIGINT:
                os.killpg(process.pid, how)  # as a terminal does
            else:
                process.send_signal(how)
            self.assertNotEqual(process.wait(timeout=30), 0)
            process.stdout.close()
            self.assertEqual(namespaces(), [])

    def test_what_a_killed_run_leaves_the_next_one_removes(self):
        process = subprocess.Popen(sites("--sites", "2", program=["sh", "-c", "echo started; sleep 60"]),
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   start_new_session=True)
        self.assertEqual(process.stdout.readline(), "started\n")
        process.kill()
        process.wait()
        process.stdout.close()
        self.assertNotEqual(namespaces(), [])
        self.run_sites("--sites", "2", program=["true"])

    def test_usage_errors(self):
        for words in ([], ["--sites", "0", "--", "true"], ["--delay-ms", "-1", "--", "true"]):
            result = subprocess.run([sys.executable, SITES, *words], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2, result.stderr)


if __name__ == "__main__":
    PROGRAM, RELAY = sys.argv[1:3]
    del sys.argv[1:3]
    if subprocess.run([sys.executable, SITES, "--probe"]).returncode == 77:
        sys.exit(77)
    unittest.main()
