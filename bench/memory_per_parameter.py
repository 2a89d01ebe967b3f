#!/usr/bin/env python3
"""Bytes of memory per parameter and rank: what a training run really holds, against the formula of
docs/algorithms.md (Memory of a rank).

Usage: bench/memory_per_parameter.py [--elements 8000000,24000000] [--ranks-per-trainer 1,2]
           [--modes pulseloco,diloco,ddp] [--trainers 2] [--set KEY=VALUE ...]

Each configuration runs at both sizes with the synthetic trainer; the peaks of anonymous resident memory
(RssAnon in /proc/PID/status, looked at every few milliseconds) of the largest rank, and the slope between
the sizes, in which everything constant cancels: program, libraries, buffers of bounded size. Prints a
Markdown table. Needs a release build, nothing else.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# FP32 arrays of a shard: theta, w, m, v, gradient; and what each mode adds.
SHARDED = {"pulseloco": 7, "diloco": 6, "ddp": 5}


def expected(mode, shards, density, settings):
    """Bytes a parameter, by the formula, with the synthetic trainer, which computes ranges."""
    arrays = 4 * SHARDED[mode]
    if "loco.on_non_finite=drop" in settings and mode != "ddp":
        arrays += 8
    if "checkpoint.every=0" not in settings:
        arrays += {"pulseloco": 20, "diloco": 16, "ddp": 12}[mode]
    if mode == "pulseloco":
        arrays += 8 * density
    if shards > 1:  # as many micro-batches: a gradient of each, added as a tree
        arrays += 4 * (1 + shards.bit_length() - 1)
    return arrays / shards


def ranks_of(program, folder):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                words = f.read().decode().split("\0")
        except OSError:
            continue
        if words[0] == program and any(folder in w for w in words):
            found.append(entry)
    return found


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def peak(options, mode, shards, elements):
    """(bytes of the largest rank, density of the gate)."""
    folder = tempfile.mkdtemp(prefix="pulseloco-memory-")
    program = os.path.abspath(options.program)
    run = os.path.join(folder, "run")
    settings = [f"run.dir={run}", f"loco.mode={mode}", "loco.rounds=3", "loco.local_steps=2",
                f"loco.ranks_per_trainer={shards}", f"trainer.micro_batches={shards}",
                f"trainer.elements={elements}", "loco.exchange_memory_mib=16", "publish.enabled=false",
                *options.settings]
    command = ["mpirun", "-n", str(options.trainers * shards), "--oversubscribe", "--bind-to", "none", program,
               "train", os.path.join(ROOT, "configs", "synthetic.yaml"),
               *(word for s in settings for word in ("--set", s))]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    most, pids, looked = 0, [], 0
    while process.poll() is None:
        if time.monotonic() - looked > 0.3 and len(pids) < options.trainers * shards:
            pids, looked = ranks_of(program, folder), time.monotonic()
        most = max([most, *map(anonymous_bytes, pids)])
        time.sleep(0.002)
    if process.returncode != 0:
        sys.exit(f"memory_per_parameter.py: {mode}: {process.stderr.read().decode()}")
    with open(os.path.join(run, "metrics.jsonl")) as f:
        rounds = [r for r in map(json.loads, f) if r["type"] == "round"]
    shutil.rmtree(folder, True)
    return most, max(r["gate_density"] for r in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--elements", default="8000000,24000000")
    parser.add_argument("--ranks-per-trainer", dest="ranks", default="1,2")
    parser.add_argument("--modes", default="pulseloco,diloco,ddp")
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "pulseloco"))
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    small, large = map(int, options.elements.split(","))
    options.ranks = list(map(int, options.ranks.split(",")))

    print(f"{options.trainers} trainers, {small:,} and {large:,} parameters, {' '.join(options.settings)}\n")
    print("| mode | ranks a trainer | peak at the larger size | bytes a parameter | formula |\n"
          "|---|---:|---:|---:|---:|")
    for mode in options.modes.split(","):
        for shards in options.ranks:
            low, _ = peak(options, mode, shards, small)
            high, density = peak(options, mode, shards, large)
            formula = expected(mode, shards, density, options.settings)
            print(f"| `{mode}` | {shards} | {high / 2**20:.0f} MiB | {(high - low) / (large - small):.1f} | "
                  f"{formula:.1f} |", flush=True)


if __name__ == "__main__":
    main()
