#!/usr/bin/env python3
"""A rank is stopped, hangs, exits or is killed: does the job end, in time, saying who it was?

Usage: collective_faults.py --mpirun PATH --program PATH CASE
Starts four ranks of collective_rank under mpirun, does harm to rank 2, and checks the survivors'
reports, mpirun's exit code, the time it took, and that no process is left.
"""
import os
import re
import signal
import time

from mpi_job import Job, fail, main

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
    code = job.wait_for_end(pids, END_WITHIN_S, exit_codes)
    took_s = time.monotonic() - started
    if reported:
        named = re.escape(f"rank {VICTIM} ({hosts[VICTIM]})")
        # A rank stopped amid a call may have kept others waiting for one another; one that hangs
        # between two calls has not.
        others = "" if fault else ".*"
        for rank in set(range(RANKS)) - {VICTIM}:
            if not job.find(rf"rank {rank} failed: DEADLINE_EXCEEDED: \S+ \d+: no data from "
                            rf"{others}{named}{others} within {DEADLINE_MS / 1000} s"):
                fail(job, f"rank {rank} did not report rank {VICTIM} and its host")
    job.report(args.case, code, took_s)


if __name__ == "__main__":
    main(CASES, check)
