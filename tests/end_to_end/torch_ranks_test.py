#!/usr/bin/env python3
"""The built-in trainer as real ranks: how many share a trainer changes no bit.

Usage: torch_ranks_test.py PROGRAM [unittest arguments]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = None
CONFIG = """
run: {dir: RUN, name: test, seed: 5}
loco: {rounds: 3, local_steps: 2, deadline: 120s}
adam: {learning_rate: 3e-5}
trainer: {kind: wordle, words: 32, groups: 2, games_per_group: 8, micro_batches: 2,
          warm_start_steps: 40, warm_start_games: 16}
publish: {enabled: false}
evaluate: {samples: 0}
"""


class RanksOfATrainer(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-torch-ranks-")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def train(self, name, ranks, *settings):
        run = os.path.join(self.dir, name)
        with open(f"{run}.yaml", "w") as f:
            f.write(CONFIG.replace("RUN", run))
        result = subprocess.run(
            ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", PROGRAM, "train", f"{run}.yaml",
             *(word for setting in settings for word in ("--set", setting))],
            capture_output=True, text=True, timeout=300,
            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(os.path.join(run, "metrics.jsonl")) as f:
            rounds = [r for r in map(json.loads, f) if r["type"] == "round"]
        digests = [r["theta_digest"] for r in rounds]
        self.assertEqual(len(set(digests)), len(rounds), "no round may leave theta as it was")
        # Sums such as the loss's are added in another order, and may differ in their last digits.
        return [(r["theta_digest"], r["entries"], r["metrics"]["games"], r["metrics"]["guesses"]) for r in rounds]

    def test_two_ranks_compute_what_one_does_in_every_mode(self):
        for mode in ("pulseloco", "diloco", "ddp"):
            one = self.train(f"{mode}-1", 2, f"loco.mode={mode}")
            two = self.train(f"{mode}-2", 4, f"loco.mode={mode}", "loco.ranks_per_trainer=2")
            self.assertEqual(two, one, mode)

    def test_another_number_of_micro_batches_is_another_sum(self):
        two = self.train("two", 2, "loco.rounds=1")
        one = self.train("one", 2, "loco.rounds=1", "trainer.micro_batches=1")
        self.assertNotEqual(two[0][0], one[0][0])


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
