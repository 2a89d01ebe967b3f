#!/usr/bin/env python3
"""Seconds and peak anonymous memory of each command on a large checkpoint, beside general tools.

Usage: /usr/bin/python3 bench/checkpoint_tools.py [--parameters N] [--program build/release/pulseloco]
                                                  [--dir DIR] [--skip-tools]

Makes a BF16 checkpoint of N parameters (0.6e9: 1.2 GB) with weights ~ N(0, 0.02), as large language
models have them, and a second one a training step later with about 1 % of its elements changed by one unit
in the last place, small weights more often than large ones. Needs numpy (Debian: python3-numpy), zstd and
xdelta3, and about 8 GB of disk. Prints a Markdown table.
"""
import argparse
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time

import numpy

TENSOR_ELEMENTS = 32 << 20  # so that the generator, too, needs little memory


def bf16(values):
    bits = values.view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def make_checkpoints(folder, parameters, seed=1):
    """Writes before.safetensors and after.safetensors; returns the changed share."""
    sizes = [TENSOR_ELEMENTS] * (parameters // TENSOR_ELEMENTS)
    if parameters % TENSOR_ELEMENTS:
        sizes.append(parameters % TENSOR_ELEMENTS)
    header, at = {}, 0
    for i, size in enumerate(sizes):
        header[f"model.layers.{i:03d}.weight"] = {"dtype": "BF16", "shape": [size],
                                                  "data_offsets": [at, at + 2 * size]}
        at += 2 * size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    generator = numpy.random.Generator(numpy.random.Philox(seed))
    changed = 0
    with open(f"{folder}/before.safetensors", "wb") as before, open(f"{folder}/after.safetensors", "wb") as after:
        for f in (before, after):
            f.write(struct.pack("<Q", len(text)) + text)
        for size in sizes:
            masters = generator.standard_normal(size, dtype=numpy.float32) * numpy.float32(0.02)
            # Steps of this size, either way, move about 1 % of such weights' BF16 views.
            moved = masters + numpy.where(generator.random(size, dtype=numpy.float32) < 0.5,
                                          numpy.float32(-2.3e-7), numpy.float32(2.3e-7))
            old, new = bf16(masters), bf16(moved)
            changed += int(numpy.count_nonzero(old != new))
            old.tofile(before)
            new.tofile(after)
    return changed / parameters


def measure(command):
    """Seconds, and the largest RssAnon seen (sampled every 5 ms), of a command that must succeed."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0

    def sample():
        nonlocal peak
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/status") as f:
                    for line in f:
                        if line.startswith("RssAnon:"):
                            peak = max(peak, int(line.split()[1]))
            except OSError:
                return
            time.sleep(0.005)

    sampler = threading.Thread(target=sample)
    sampler.start()
    _, err = process.communicate()
    seconds = time.monotonic() - start
    sampler.join()
    if process.returncode != 0:
        raise SystemExit(f"{command}: {err.decode()}")
    return seconds, peak / 1024


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=lambda s: int(float(s)), default=600_000_000)
    parser.add_argument("--program", default="build/release/pulseloco")
    parser.add_argument("--dir", help="work here (default: a temporary folder)")
    parser.add_argument("--skip-tools", action="store_true", help="leave zstd and xdelta3 out")
    a = parser.parse_args()
    for tool in [] if a.skip_tools else ["zstd", "xdelta3"]:
        if shutil.which(tool) is None:
            raise SystemExit(f"checkpoint_tools.py: {tool} is not installed: apt-get install {tool}, or --skip-tools")
    folder = tempfile.mkdtemp(prefix="pulseloco-bench-", dir=a.dir)
    try:
        share = make_checkpoints(folder, a.parameters)
        before, after = f"{folder}/before.safetensors", f"{folder}/after.safetensors"
        size = os.path.getsize(before)
        print(f"{a.parameters / 1e9:.2f} G parameters, {size / 1e9:.2f} GB, {100 * share:.2f} % of the elements differ\n")
        print("| command | seconds | peak anonymous MiB | output MB | bits per change |")
        print("|---|---:|---:|---:|---:|")

        def row(name, command, output=None):
            seconds, peak = measure(command)
            out = os.path.getsize(output) if output else 0
            bits = f"{8 * out / (share * a.parameters):.2f}" if output and out < size / 2 else ""
            print(f"| {name} | {seconds:.1f} | {peak:.0f} | {f'{out / 1e6:.1f}' if output else ''} | {bits} |", flush=True)

        subprocess.run(["cat", before, after], stdout=subprocess.DEVNULL, check=True)  # both in the page cache
        bucket = f"{folder}/bucket"
        row("cp (a bound)", ["cp", before, f"{folder}/copy"])
        os.remove(f"{folder}/copy")
        row("`pulseloco diff`", [a.program, "diff", before, after, "-o", f"{folder}/patch"], f"{folder}/patch")
        row("`pulseloco apply`", [a.program, "apply", before, f"{folder}/patch", "-o", f"{folder}/out.safetensors"])
        for name, checkpoint in (("first (anchor)", before), ("second (delta)", after)):
            row(f"`pulseloco publish`, {name}", [a.program, "publish", "--bucket", bucket, "--model", checkpoint,
                                                 "--state", f"{folder}/state"])
        follow = [a.program, "follow", "--bucket", bucket, "--out", f"{folder}/copy.safetensors"]
        row("`pulseloco follow --version 1`, from the anchor", [*follow, "--version", "1"])
        row("`pulseloco follow --once`, one delta", [*follow, "--once"])
        row("`pulseloco verify`", [a.program, "verify", bucket])
        if not a.skip_tools:
            os.remove(f"{folder}/out.safetensors")
            long = ["--long=31", "-3", "-T2", "-q", "-f"]
            row("`zstd -3 --patch-from`", ["zstd", *long, f"--patch-from={before}", after, "-o", f"{folder}/zst"], f"{folder}/zst")
            row("`zstd -d --patch-from`", ["zstd", "-d", "--long=31", "-q", "-f", f"--patch-from={before}", f"{folder}/zst",
                                           "-o", f"{folder}/out.safetensors"])
            if sha256(f"{folder}/out.safetensors") != sha256(after):
                raise SystemExit("zstd rebuilt something else")
            row("`xdelta3 -1 -e`", ["xdelta3", "-1", "-e", "-f", "-B", str(min(size, 2**31 - 1)), "-s", before, after,
                                    f"{folder}/xd3"], f"{folder}/xd3")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
