#!/usr/bin/env python3
"""Each way in which a rank can go wrong, as real processes: the job ends, in time, with the fault's own
exit code, and every survivor that speaks names the rank, its host and the round.

Usage: loco_faults.py --mpirun PATH --program PATH CASE
Starts four ranks of loco_rank under mpirun; rank 2 is the one that goes wrong.
"""
import os
import re
import signal
import time

from mpi_job import Job, fail, main

RANKS, VICTIM = 4, 2
DEADLINE_MS = 4000
END_WITHIN_S = 40  # the deadline, some seconds of grace, and plenty for a crowded machine
ROUNDS = 6

# case -> fault that the program does to itself, signal from outside, exit code, what is said of it. The
# victim is VICTIM as "rank 2 (host)" and ROUND is where it happens.
CASES = {
    "stopped": ("none", signal.SIGSTOP, 8, r"round \d+: .*no data from .*VICTIM"),
    # mpirun notices it itself, and ends the others at once.
    "killed": ("none", signal.SIGKILL, 128 + signal.SIGKILL, None),
    "raises": ("raise", None, 6, r"ROUND: VICTIM failed: trainer 2, step 5"),
    "raises_and_is_dropped": ("raise-dropped", None, 0, None),
    "has_a_nan": ("nan", None, 2, r"ROUND: trainer 2 has non-finite gradients or weights on VICTIM"),
    "has_a_nan_and_is_dropped": ("nan-dropped", None, 0, None),
    "has_another_config": ("config", None, 2, r"start of the run: .*learning_rate is .*unlike most: VICTIM"),
    "is_a_round_behind": ("behind", None, 5, r"round [23]: VICTIM is at the exchange of round 1"),
    "has_a_flipped_bit_in_theta": ("theta", None, 4, r"ROUND: theta differs between ranks: tensor .* on VICTIM;"),
    "gets_a_flipped_bit_in_a_message": ("message", None, 4,
                                        r"ROUND: .*what rank \d \(HOST\) sent to VICTIM arrived damaged"),
}
# Who may speak of it: the one that was hit where only it can know, else all who are alive.
ONLY_VICTIM = {"gets_a_flipped_bit_in_a_message"}


def check(args):
    fault, sent_signal, code, said = CASES[args.case]
    job = Job([args.mpirun, "-n", str(RANKS), args.program, str(DEADLINE_MS), fault, str(VICTIM)])
    started = time.monotonic()
    ranks = job.wait_for(r"rank (\d+) pid (\d+) host (\S+)", RANKS, 60)
    pids = {int(m[1]): int(m[2]) for m in ranks}
    host = re.escape(ranks[0][3])
    if sent_signal:
        job.wait_for(r"round 3 ", 1, 60)
        os.kill(pids[VICTIM], sent_signal)
        started = time.monotonic()
    job.wait_for_end(pids, END_WITHIN_S, {code})
    took_s = time.monotonic() - started
    if code == 0:
        dropped = {int(m[1]): int(m[2]) for m in job.find(r"round (\d+) dropped (-?\d+)")}
        expected = {r: VICTIM if r == 3 else -1 for r in range(1, ROUNDS + 1)}
        if dropped != expected:
            fail(job, f"dropped by round: {dropped}, expected {expected}")
    if said:
        pattern = said.replace("VICTIM", rf"rank {VICTIM} \({host}\)").replace("HOST", host)
        pattern = pattern.replace("ROUND", "round 3")
        survivors = {VICTIM} if args.case in ONLY_VICTIM else set(range(RANKS)) - {VICTIM}
        silent = [r for r in survivors if not job.find(rf"rank {r} failed: \w+: {pattern}")]
        # Who fails first ends the job after some seconds, in which the others speak too.
        if silent:
            fail(job, f"ranks {silent} did not say '{pattern}'")
    job.report(args.case, code, took_s)


if __name__ == "__main__":
    main(CASES, check)
