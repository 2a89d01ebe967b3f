#!/usr/bin/env python3
"""Sites behind slow links, on one machine: runs a program under mpirun with its ranks in network
namespaces, each joined to the others by a link of a set rate and, if wanted, a delay.

    sites.py --sites 4 --rate 200mbit -- build/release/pulseloco train configs/synthetic.yaml
    sites.py --sites 2 --rate 50mbit --delay-ms 40 -- ...

Rank r runs in site r / RANKS_PER_SITE, whose host name is site0, site1, ... Each site has one
interface, eth0, to a bridge; `tc tbf` holds both directions of that link to the rate. When the program
has ended, what went over each link is read from the interfaces' counters: payload, framing,
acknowledgements, start-up, all of it.

Needs root and the packages iproute2, openmpi-bin. The machine's own network is not touched: even
the bridge lies in a namespace. Everything is removed at the end, also after Ctrl-C; what a killed
run leaves, the next one removes.

Exit code: the program's; 2 for usage; 77 where the machine can't make namespaces.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

PREFIX = "pulseloco-"  # of namespaces: pulseloco-<pid of this script>-<host>
SUBNET = "10.213.0"
CANNOT = 77


class Failed(Exception):
    pass


def run(*words):
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{shlex.join(words)}: {result.stderr.strip() or result.returncode}")
    return result.stdout


def namespace(owner, host):
    return f"{PREFIX}{owner}-{host}"


def enter(name, host, words):
    """The command line that runs `words` in a namespace, under a host name of its own."""
    return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c",
            'hostname "$0" && exec "$@"', host, *words]


def remove(owner):
    """All that the run of that process made. Never fails."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        name = line.split()[0] if line.split() else ""
        if name.startswith(f"{PREFIX}{owner}-"):
            for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True,
                                      text=True).stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)


def remove_leftovers():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for owner in {m.group(1) for m in re.finditer(rf"^{PREFIX}(\d+)-", listed, re.MULTILINE)}:
        if not os.path.exists(f"/proc/{owner}"):
            remove(owner)


class Sites:
    """Links and namespaces; made by `with`, gone after it."""

    def __init__(self, sites, rate, delay_ms, relay):
        self.owner = os.getpid()
        self.rate, self.delay_ms, self.relay = rate, delay_ms, relay
        self.hosts = [f"site{i}" for i in range(sites)]
        self.relays = []

    def name(self, host):
        return namespace(self.owner, host)

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for relay in self.relays:
            relay.kill()
            relay.wait()
        remove(self.owner)

    def _make(self):
        wan = self.name("wan")
        run("ip", "netns", "add", wan)
        run("ip", "-n", wan, "link", "add", "wan0", "type", "bridge")
        run("ip", "-n", wan, "link", "set", "wan0", "up")
        hosts_file = "127.0.0.1 localhost\n" + "".join(
            f"{SUBNET}.{i + 1} {host}\n" for i, host in enumerate(self.hosts))
        for i, host in enumerate(self.hosts):
            site = self.name(host)
            run("ip", "netns", "add", site)
            os.makedirs(f"/etc/netns/{site}")
            with open(f"/etc/netns/{site}/hosts", "w") as f:
                f.write(hosts_file)
            port = f"port{i}"
            self._join(site, wan, port)
            run("ip", "-n", wan, "link", "set", port, "master", "wan0", "up")
            run("ip", "-n", site, "address", "add", f"{SUBNET}.{i + 1}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", site, "link", "set", device, "up")
            # One frame a segment, as on a wire: counters and rate then see every header.
            run("ip", "-n", site, "link", "set", "eth0", "gso_max_segs", "1")
            # 20 ms of buffer: enough for TCP at these rates, short enough to stay a link, not a store.
            for where, device in ((site, "eth0"), (wan, port)):
                run("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate,
                    "burst", "128kb", "latency", "20ms")

    def _join(self, site, wan, port):
        if self.delay_ms == 0:
            run("ip", "link", "add", "eth0", "netns", site, "type", "veth", "peer", "name", port,
                "netns", wan)
            return
        relay = subprocess.Popen([self.relay, str(self.delay_ms), site, "eth0", wan, port],
                                 stdout=subprocess.PIPE, text=True)
        self.relays.append(relay)
        if relay.stdout.readline() != "ready\n":
            raise Failed(f"{self.relay} did not start")

    def counters(self):
        """Bytes sent and received over each site's link so far."""
        def read(host, which):
            return int(run("ip", "netns", "exec", self.name(host), "cat",
                           f"/sys/class/net/eth0/statistics/{which}_bytes"))
        return {host: {"sent": read(host, "tx"), "received": read(host, "rx")} for host in self.hosts}

    def mpirun(self, ranks_per_site, words):
        """The command line that starts the program on all sites; mpirun itself runs in site 0."""
        agent = f"{sys.executable} {os.path.abspath(__file__)} --enter"
        mca = {"plm": "rsh", "plm_rsh_agent": agent, "pml": "ob1", "btl": "tcp,self",
               "btl_tcp_if_include": f"{SUBNET}.0/24", "oob_tcp_if_include": f"{SUBNET}.0/24"}
        hosts = ",".join(f"{host}:{ranks_per_site}" for host in self.hosts)
        command = ["mpirun", "-n", str(ranks_per_site * len(self.hosts)), "--host", hosts,
                   "--bind-to", "none", "--oversubscribe"]
        for key, value in mca.items():
            command += ["--mca", key, value]
        return enter(self.name(self.hosts[0]), self.hosts[0], [*command, *words])


def enter_as_agent(host, words):
    """What mpirun starts instead of ssh: `words`, joined as ssh does, in that host's namespace."""
    owner = os.environ.get("PULSELOCO_SITES_OWNER", "")
    if not owner.isdigit() or not re.fullmatch(r"site\d+", host):
        raise Failed(f"--enter {host}: only mpirun under this script calls this")
    command = enter(namespace(owner, host), host, ["sh", "-c", " ".join(words)])
    os.execvp(command[0], command)


def probe():
    """None where namespaces, links and rates can be made; else why not."""
    name = namespace(os.getpid(), "probe")
    try:
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", "eth1",
            "netns", name)
        run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1mbit", "burst",
            "16kb", "latency", "20ms")
        return None
    except (Failed, FileNotFoundError) as e:
        return str(e)
    finally:
        try:
            remove(os.getpid())
        except FileNotFoundError:
            pass


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--ranks-per-site", type=int, default=1)
    parser.add_argument("--rate", default="200mbit", help="of each link and direction, as `tc` writes it")
    parser.add_argument("--delay-ms", type=int, default=0, help="one way, added on each link")
    parser.add_argument("--relay", default="build/release/tests/sites/delay_relay",
                        help="the program that delays; built with the tests")
    parser.add_argument("--counters", help="write the links' counters to this file as JSON")
    parser.add_argument("--probe", action="store_true", help="say whether this machine can do it")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- PROGRAM ARGUMENTS...")
    options = parser.parse_args(arguments)
    options.program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not options.program and not options.probe:
        parser.error("which program? Put it behind --")
    if not (1 <= options.sites <= 250 and options.ranks_per_site >= 1 and options.delay_ms >= 0):
        parser.error("expected 1 to 250 sites, at least one rank a site and a delay of 0 ms or more")
    return options


def main():
    if sys.argv[1:2] == ["--enter"]:
        enter_as_agent(sys.argv[2], sys.argv[3:])
    options = parse(sys.argv[1:])
    why_not = probe()
    if why_not is not None:
        print(f"sites.py: this machine can't make linked namespaces (root and iproute2?): {why_not}",
              file=sys.stderr)
        return CANNOT
    if options.probe:
        return 0
    remove_leftovers()
    # mpirun, which shares our terminal, ends on Ctrl-C by itself; we stay to clean up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Sites(options.sites, options.rate, options.delay_ms, options.relay) as sites:
        environment = {**os.environ, "PULSELOCO_SITES_OWNER": str(sites.owner),
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        begin, before = time.monotonic(), sites.counters()
        process = subprocess.Popen(
            sites.mpirun(options.ranks_per_site, options.program), env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        code = process.wait()
        seconds, after = time.monotonic() - begin, sites.counters()
    links = {host: {way: after[host][way] - before[host][way] for way in ("sent", "received")}
             for host in after}
    if options.counters:
        with open(options.counters, "w") as f:
            json.dump({"seconds": seconds, "rate": options.rate, "delay_ms": options.delay_ms,
                       "links": links}, f)
    for host, link in links.items():
        print(f"{host}: sent {link['sent'] / 1e6:.2f} MB, received {link['received'] / 1e6:.2f} MB",
              file=sys.stderr)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        sys.exit(f"sites.py: {e}")
