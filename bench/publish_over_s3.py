#!/usr/bin/env python3
"""From publish to a ready follower over S3 through a slow link, beside copying the whole checkpoint.

Usage: /usr/bin/python3 bench/publish_over_s3.py [--parameters N] [--mbit 200] [--program build/release/pulseloco]
                                                 [--dir DIR]

Makes the checkpoints of bench/checkpoint_tools.py (0.6e9 BF16 parameters: 1.2 GB; about 1 % differ), an S3 server
(rclone) in one network namespace, and the clients in another, joined by a link that `tc tbf` holds to the rate in
either direction. Needs root, iproute2, python3-numpy, build/venv (tests/stores/make_venv.sh), 5 GB of disk, and 8 GB
of memory, as the server keeps its objects there.
Removes the namespaces and its files whatever happens. Prints a Markdown table.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
VENV = HERE.parent / "build" / "venv" / "bin"
sys.path.insert(0, str(HERE))
import checkpoint_tools  # noqa: E402

SERVER, CLIENT = "10.200.77.1", "10.200.77.2"
KEYS = {"AWS_ACCESS_KEY_ID": "WRITER", "AWS_SECRET_ACCESS_KEY": "writer", "AWS_DEFAULT_REGION": "us-east-1"}


def run(*command, **kwargs):
    return subprocess.run([str(c) for c in command], check=True, **kwargs)


class Link:
    """Two namespaces and the link between them."""

    def __init__(self, mbit):
        self.server, self.client = f"pulse-s-{os.getpid()}", f"pulse-c-{os.getpid()}"
        self.mbit = mbit

    def __enter__(self):
        try:
            for name in (self.server, self.client):
                run("ip", "netns", "add", name)
            run("ip", "link", "add", "eth0", "netns", self.server, "type", "veth", "peer", "name", "eth0", "netns",
                self.client)
            for name, address in ((self.server, SERVER), (self.client, CLIENT)):
                run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    run("ip", "-n", name, "link", "set", device, "up")
                run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
                    "rate", f"{self.mbit}mbit", "burst", "256kb", "latency", "50ms")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (self.server, self.client):
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)

    def command(self, name, *command):
        return ["ip", "netns", "exec", name, *[str(c) for c in command]]

    def bytes(self):
        """Sent and received by the client."""
        out = run(*self.command(self.client, "cat", "/sys/class/net/eth0/statistics/tx_bytes",
                                "/sys/class/net/eth0/statistics/rx_bytes"), stdout=subprocess.PIPE, text=True).stdout
        return [int(x) for x in out.split()]


class Bench:
    def __init__(self, link, args, folder):
        self.link, self.args, self.folder, self.rows = link, args, folder, []
        self.endpoint = f"http://{SERVER}:9000"
        self.env = {**{k: v for k, v in os.environ.items() if "proxy" not in k.lower()}, **KEYS}

    def measure(self, name, *command):
        before, begin = self.link.bytes(), time.monotonic()
        run(*self.link.command(self.link.client, *command), env=self.env, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
        sent, received = (b - a for a, b in zip(before, self.link.bytes()))
        self.rows.append((name, seconds, sent, received))
        print(f"{name}: {seconds:.1f} s", file=sys.stderr)
        return seconds

    def aws(self, name, *arguments):
        return self.measure(name, VENV / "python", VENV / "aws", "--endpoint-url", self.endpoint, "s3", "cp",
                            *arguments)

    def all(self):
        run(*self.link.command(self.link.client, VENV / "python", VENV / "aws", "--endpoint-url", self.endpoint, "s3",
                               "mb", "s3://bucket"), env=self.env, stdout=subprocess.DEVNULL)
        before, after = self.folder / "before.safetensors", self.folder / "after.safetensors"
        bucket = f"s3://bucket/runs?endpoint={self.endpoint}"
        publish = [self.args.program, "publish", "--bucket", bucket, "--single-writer", "--state",
                   self.folder / "state", "--model"]
        follow = [self.args.program, "follow", "--bucket", bucket, "--once", "--out", self.folder / "out.safetensors"]
        self.aws("`aws s3 cp`, the checkpoint up", before, "s3://bucket/whole.safetensors")
        self.aws("`aws s3 cp`, the checkpoint down", "s3://bucket/whole.safetensors", self.folder / "copy.safetensors")
        os.remove(self.folder / "copy.safetensors")
        self.measure("`publish`, first (anchor)", *publish, before)
        self.measure("`follow`, from the anchor", *follow)
        self.measure("`publish`, one step later (delta)", *publish, after)
        self.measure("`follow`, one delta", *follow)

    def print_table(self, changed):
        size = (self.folder / "before.safetensors").stat().st_size
        bound = size * 8 / (self.args.mbit * 1e6)
        print(f"{size / 1e9:.2f} GB, {100 * changed:.2f} % of the elements changed, {self.args.mbit} Mbit/s, "
              f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores; the whole at the link's rate: {bound:.1f} s\n")
        print("| step | seconds | MB up | MB down |\n|---|---:|---:|---:|")
        for name, seconds, sent, received in self.rows:
            print(f"| {name} | {seconds:.1f} | {sent / 1e6:.1f} | {received / 1e6:.1f} |")
        whole, ready = (sum(row[1] for row in self.rows[i:i + 2]) for i in (0, 4))
        print(f"| the whole, up and down | {whole:.1f} | | |")
        print(f"| publish to ready, one step later | {ready:.1f} ({whole / ready:.1f} x faster) | | |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parameters", type=float, default=0.6e9)
    parser.add_argument("--mbit", type=int, default=200)
    parser.add_argument("--program", default=HERE.parent / "build" / "release" / "pulseloco", type=pathlib.Path)
    parser.add_argument("--dir", default=None)
    args = parser.parse_args()
    args.program = args.program.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pulseloco-s3-", dir=args.dir))
    server = None
    try:
        changed = checkpoint_tools.make_checkpoints(folder, int(args.parameters))
        with Link(args.mbit) as link:
            server = subprocess.Popen(link.command(
                link.server, VENV / "rclone", "serve", "s3", ":memory:", "--addr", f"{SERVER}:9000",
                "--auth-key", "WRITER,writer", "--config", "/dev/null", "--log-level", "ERROR"))
            time.sleep(2)
            bench = Bench(link, args, folder)
            bench.all()
            bench.print_table(changed)
    finally:
        if server is not None:
            server.kill()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
