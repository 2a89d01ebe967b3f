#!/usr/bin/env python3
"""What a round costs across sites behind slow links: pulseloco, diloco and ddp, payload and wire apart.

Usage: bench/modes_across_sites.py [--sites 4] [--rate 200mbit] [--delay-ms 0]
           [--config configs/quickstart.yaml] [--rounds 5] [--modes pulseloco,diloco,ddp] [--set KEY=VALUE ...]

Each mode runs twice under launch/sites.py, one trainer a site, with 1 round and with 1 + ROUNDS; what
the interfaces' counters show more for the longer run is what ROUNDS rounds put on the wire, framing and
acknowledgements included. Prints a Markdown table. Needs root, iproute2 and a release build.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def train(options, folder, mode, rounds):
    """(rounds' records, links' counters) of one run."""
    run, counters = os.path.join(folder, "run"), os.path.join(folder, "counters.json")
    shutil.rmtree(run, ignore_errors=True)
    settings = [f"run.dir={run}", f"loco.mode={mode}", f"loco.rounds={rounds}", "publish.enabled=false",
                "evaluate.samples=0", *options.settings]
    command = [sys.executable, os.path.join(ROOT, "launch", "sites.py"), "--sites", str(options.sites),
               "--rate", options.rate, "--delay-ms", str(options.delay_ms), "--counters", counters, "--",
               os.path.abspath(options.program), "train", options.config,
               *(word for s in settings for word in ("--set", s))]
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"modes_across_sites.py: {mode}: exit code {result.returncode}\n{result.stderr}")
    with open(os.path.join(run, "metrics.jsonl")) as f:
        records = list(map(json.loads, f))
    with open(counters) as f:
        return records, json.load(f)["links"]


def measure(options, folder, mode):
    _, short = train(options, folder, mode, 1)
    records, long = train(options, folder, mode, 1 + options.rounds)
    rounds = [r for r in records if r["type"] == "round"][1:]
    parameters = next(r for r in records if r["type"] == "start")["parameters"]
    n = len(rounds)
    wire = sum(long[host]["received"] - short[host]["received"] for host in long) / n / len(long)

    def mean(value):
        return sum(map(value, rounds)) / n

    entries = mean(lambda r: r["entries"])
    payload = mean(lambda r: r["received_bytes"])
    return {"mode": mode, "seconds": mean(lambda r: r["seconds"]),
            "exchange_seconds": mean(lambda r: r["phases"]["exchange"]), "payload": payload,
            "wire": wire, "parameters": parameters,
            "density": entries / options.sites / parameters,
            "bytes_per_entry": payload / entries * options.sites / (options.sites - 1) if entries else 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--config", default=os.path.join(ROOT, "configs", "quickstart.yaml"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modes", default="pulseloco,diloco,ddp")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "pulseloco"))
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="pulseloco-sites-") as folder:
        rows = [measure(options, folder, mode) for mode in options.modes.split(",")]
    dense = next((r["wire"] for r in rows if r["mode"] == "diloco"), None)
    print(f"{rows[0]['parameters']:,} parameters, {options.sites} sites at {options.rate}, "
          f"{options.delay_ms} ms added each way; means of {options.rounds} rounds\n")
    print("| mode | s/round | of it exchange | payload received | on the wire | dense DiLoCo's wire / this "
          "| gate | B/entry |\n|---|---:|---:|---:|---:|---:|---:|---:|")
    for r in rows:
        ratio = f"{dense / r['wire']:.2f}" if dense else ""
        sparse = (f"{100 * r['density']:.1f} %", f"{r['bytes_per_entry']:.2f}")
        gate, entry = sparse if r["mode"] == "pulseloco" else ("", "")
        print(f"| `{r['mode']}` | {r['seconds']:.2f} | {r['exchange_seconds']:.2f} | "
              f"{r['payload'] / 1e6:.2f} MB | {r['wire'] / 1e6:.2f} MB | {ratio} | {gate} | {entry} |")


if __name__ == "__main__":
    main()
