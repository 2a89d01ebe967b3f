#!/usr/bin/env python3
"""A rank is stopped, hangs, exits or is killed: does the job end, in time, saying who it was?

Usage: collective_faults.py --mpirun PATH --program PATH CASE
Starts four ranks of collective_rank under mpirun, does harm to rank 2, and checks the survivors'
reports, mpirun's exit code, the time it took, and that no process is left.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time

RANKS = 4
VICTIM = 2
DEADLINE_MS = 4000
EXIT_CODE = 42  # of collective_rank, when a call failed
# From the harm to the end: the deadline, 2 s of grace (or 5 s of waiting at the exit), mpirun's own
# 1 s before SIGKILL, and plenty for a crowded machine. Without our deadline it would be for ever.
END_WITHIN_S = 40
SMALL, LARGE = 32, 2 << 20

# case -> message bytes, how survivors end, fault that the victim does to itself, signal from
# outside, accepted exit codes, whether survivors get to report the victim
CASES = {
    "stopped_rank": (SMALL, "abort", None, signal.SIGSTOP, {EXIT_CODE}, True),
    # Stopped amid a transfer, as a rule: sends remain in flight, which cannot be cancelled.
    "stopped_rank_in_large_messages": (LARGE, "abort", None, signal.SIGSTOP, {EXIT_CODE}, True),
    "hung_rank": (SMALL, "abort", "hang", None, {EXIT_CODE}, True),
    # Its destructors run, and wait for the others in vain: they name it.
    "rank_that_exits": (SMALL, "abort", "exit", None, {EXIT_CODE}, True),
    # mpirun notices these itself and ends the others at once.
    "killed_rank": (SMALL, "abort", None, signal.SIGKILL, {128 + signal.SIGKILL}, False),
    "rank_that_kills_itself": (SMALL, "abort", "kill", None, {128 + signal.SIGKILL}, False),
    # No MPI_Abort, and no MPI_Finalize either, which would wait for the hung rank.
    "survivors_that_return": (LARGE, "return", "hang", None, {EXIT_CODE}, True),
}


class Job:
    def __init__(self, command):
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, start_new_session=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip())
                self.changed.notify_all()

    def find(self, pattern):
        return [m for m in (re.search(pattern, line) for line in self.lines) if m]

    def wait_for(self, pattern, count, timeout_s):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.find(pattern)) >= count, timeout_s):
                self.end()
                fail(self, f"'{pattern}' did not appear {count} times within {timeout_s} s")
            return self.find(pattern)

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)


def fail(job, message):
    print("\n".join(job.lines[-60:]))
    sys.exit(f"FAILED: {message}")


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def ranks_left(pids, timeout_s):
    """mpirun sends the signals and returns; the processes may need a moment to die of them."""
    end = time.monotonic() + timeout_s
    while True:
        left = [rank for rank, pid in pids.items() if running(pid)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def check(args):
    message_bytes, ending, fault, sent_signal, exit_codes, reported = CASES[args.case]
    command = [args.mpirun, "-n", str(RANKS), args.program, str(message_bytes), str(DEADLINE_MS),
               ending] + ([fault, str(VICTIM)] if fault else [])
    job = Job(command)
    ranks = job.wait_for(r"rank (\d+) pid (\d+) host (\S+)", RANKS, 60)
    pids = {int(m[1]): int(m[2]) for m in ranks}
    hosts = {int(m[1]): m[3] for m in ranks}
    job.wait_for(r"round 3$", 1, 60)
    if sent_signal:
        os.kill(pids[VICTIM], sent_signal)
    started = time.monotonic()
    try:
        code = job.process.wait(timeout=END_WITHIN_S)
    except subprocess.TimeoutExpired:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        job.end()
        fail(job, f"the job did not end within {END_WITHIN_S} s")
    took_s = time.monotonic() - started
    job.reader.join(10)

    if code not in exit_codes:
        fail(job, f"mpirun returned {code}, expected one of {exit_codes}")
    left = ranks_left(pids, 10)
    if left:
        fail(job, f"ranks {left} are still running")
    if reported:
        named = re.escape(f"rank {VICTIM} ({hosts[VICTIM]})")
        # A rank stopped amid a call may have kept others waiting for one another; one that hangs
        # between two calls has not.
        others = "" if fault else ".*"
        for rank in set(range(RANKS)) - {VICTIM}:
            if not job.find(rf"rank {rank} failed: DEADLINE_EXCEEDED: \S+ \d+: no data from "
                            rf"{others}{named}{others} within {DEADLINE_MS / 1000} s"):
                fail(job, f"rank {rank} did not report rank {VICTIM} and its host")
    print(f"{args.case}: ended with {code} after {took_s:.1f} s")
    for match in job.find(r"rank \d+ failed: .*"):
        print(match[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("case", choices=CASES)
    check(parser.parse_args())


if __name__ == "__main__":
    main()
