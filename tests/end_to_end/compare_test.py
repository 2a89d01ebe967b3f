#!/usr/bin/env python3
"""One data budget in the three modes: what the comparison's table must show, at a small size.

Usage: compare_test.py PROGRAM [unittest arguments]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
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


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
