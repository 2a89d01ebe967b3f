"""A job under mpirun whose ranks report on their output, one line at a time."""
import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time


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

    def wait_for_end(self, pids, within_s, exit_codes):
        """mpirun's exit code, one of `exit_codes`, with no rank (pid by rank) left running."""
        try:
            code = self.process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
            self.end()
            fail(self, f"the job did not end within {within_s} s")
        self.reader.join(10)
        if code not in exit_codes:
            fail(self, f"mpirun returned {code}, expected one of {exit_codes}")
        left = ranks_left(pids, 10)
        if left:
            fail(self, f"ranks {left} are still running")
        return code

    def report(self, case, code, took_s):
        print(f"{case}: ended with {code} after {took_s:.1f} s")
        for match in self.find(r"rank \d+ failed: .*"):
            print(match[0])

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


def main(cases, check):
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("case", choices=cases)
    check(parser.parse_args())
