#!/usr/bin/env python3
"""What a round costs across sites behind slow links: pulseloco, diloco and ddp, payload and wire apart.

Usage: bench/modes_across_sites.py [--sites 4] [--rate 200mbit] [--delay-ms 0]
           [--config configs/quickstart.yaml] [--rounds 5] [--modes pulseloco,diloco,ddp] [--one-start]
           [--set KEY=VALUE ...]

Each mode runs twice under launch/sites.py, one trainer a site, with 1 round and with 1 + ROUNDS; what
the interfaces' counters show more for the longer run is what ROUNDS rounds put on the wire, framing and
acknowledgements included. For large models, --one-start does so in the first mode alone: what is left of
its runs is the start (connections, initial weights), which is the same in all modes and is taken off a
single run of each other mode, whose rounds all count. A mode may have its own number: ddp:1.
Prints a Markdown table, with the ratio that the formula gives, 6N / (3 n b) at four sites, for the measured
entries and bytes an entry. Needs root, iproute2 and a release build.
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


def received(links):
    """Bytes, the mean of the sites."""
    return sum(link["received"] for link in links.values()) / len(links)


def measure(options, folder, mode, start):
    """(figures, bytes of the start) of a mode; start: those bytes, where they are known."""
    mode, _, own = mode.partition(":")
    n = int(own or options.rounds)
    if start is None:
        _, short = train(options, folder, mode, 1)
        records, long = train(options, folder, mode, 1 + n)
        rounds = [r for r in records if r["type"] == "round"][1:]
        wire = (received(long) - received(short)) / n
        start = received(short) - wire
    else:
        records, links = train(options, folder, mode, n)
        rounds = [r for r in records if r["type"] == "round"]
        wire = (received(links) - start) / n
    parameters = next(r for r in records if r["type"] == "start")["parameters"]
    print(f"{mode}: {n} rounds, {wire / 1e6:.2f} MB a round, {start / 1e6:.2f} MB at the start", file=sys.stderr)

    def mean(value):
        return sum(map(value, rounds)) / n

    entries = mean(lambda r: r["entries"])
    payload = mean(lambda r: r["received_bytes"])
    figures = {"mode": mode, "rounds": n, "seconds": mean(lambda r: r["seconds"]),
            "exchange_seconds": mean(lambda r: r["phases"]["exchange"]), "payload": payload,
            "wire": wire, "parameters": parameters,
            "density": entries / options.sites / parameters,
            "bytes_per_entry": mean(lambda r: r["payload_bytes"]) / entries if entries else 0}
    others = (options.sites - 1) * figures["density"] * figures["bytes_per_entry"]
    figures["formula"] = 8 * (options.sites - 1) / options.sites / others if others else 0
    return figures, start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--config", default=os.path.join(ROOT, "configs", "quickstart.yaml"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modes", default="pulseloco,diloco,ddp")
    parser.add_argument("--one-start", action="store_true")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "pulseloco"))
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="pulseloco-sites-") as folder:
        rows, start = [], None
        for mode in options.modes.split(","):
            row, found = measure(options, folder, mode, start)
            rows.append(row)
            start = found if options.one_start else None
    dense = next((r["wire"] for r in rows if r["mode"] == "diloco"), None)
    print(f"{rows[0]['parameters']:,} parameters, {options.sites} sites at {options.rate}, "
          f"{options.delay_ms} ms added each way; received per site and round\n")
    print("| mode | rounds | s/round | of it exchange | payload | on the wire | dense DiLoCo's wire / this "
          "| by the formula | gate | B/entry |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for r in rows:
        ratio = f"{dense / r['wire']:.2f}" if dense else ""
        sparse = (f"{r['formula']:.2f}", f"{100 * r['density']:.1f} %", f"{r['bytes_per_entry']:.2f}")
        formula, gate, entry = sparse if r["mode"] == "pulseloco" else ("", "", "")
        print(f"| `{r['mode']}` | {r['rounds']} | {r['seconds']:.2f} | {r['exchange_seconds']:.2f} | "
              f"{r['payload'] / 1e6:.2f} MB | {r['wire'] / 1e6:.2f} MB | {ratio} | {formula} | {gate} | {entry} |")


if __name__ == "__main__":
    main()
