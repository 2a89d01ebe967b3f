#!/usr/bin/env bash
# A training run that outlives its ranks: starts the job, and after a rank was killed, hung or lost its
# network starts it again from the last checkpoint, a bounded number of times.
#
# Usage: bash launch/train.sh RANKS CONFIG [pulseloco train's options ...]
#        RESTARTS=5 MPIRUN="mpirun --hostfile hosts" bash launch/train.sh 4 configs/wordle.yaml
#
# RESTARTS     how often to start again, 3 by default
# MPIRUN       the command that starts ranks, without their number
# PROGRAM      build/release/pulseloco by default
# The exit code is the program's (docs/operations.md). What another start can't mend (a wrong
# configuration, a full disk, a clean stop) is not tried again.
set -uo pipefail

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }
case "${1:-}" in -h | --help) usage; exit 0 ;; esac
[ $# -ge 2 ] && [[ "$1" =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
ranks=$1
shift
program=${PROGRAM:-build/release/pulseloco}
restarts=${RESTARTS:-3}
read -ra mpirun <<<"${MPIRUN:-mpirun}"
[ -x "$program" ] || { echo "train.sh: $program: not there; build it, or set PROGRAM" >&2; exit 2; }
[[ "$restarts" =~ ^[0-9]+$ ]] || { echo "train.sh: RESTARTS=$restarts: expected a number" >&2; exit 2; }

# Ctrl-C and SIGTERM go to the job, which stops after its round; the wait below goes on until it has.
job=
stopping=
forward() { stopping=1; [ -z "$job" ] || kill -TERM "$job" 2>/dev/null; }
trap forward INT TERM

log=$(mktemp)
trap 'rm -f "$log"' EXIT

for ((attempt = 0; ; ++attempt)); do
  exec {errors}> >(exec tee "$log" >&2)
  tee=$!
  "${mpirun[@]}" -n "$ranks" "$program" train "$@" --resume 2>&"$errors" {errors}>&- &
  job=$!
  exec {errors}>&-
  wait "$job"
  code=$?
  while kill -0 "$job" 2>/dev/null; do wait "$job"; code=$?; done
  job=
  wait "$tee"
  # A killed rank: mpirun ends the others and returns 128 + the signal. It names the rank itself.
  if [ "$code" -gt 128 ] && [ "$code" -ne 130 ] && [ -z "$stopping" ]; then
    rank=$(sed -n 's/.*process rank \([0-9]*\) with PID [0-9]* on node \([^ ]*\) exited on signal \([0-9]*\).*/rank \1 on \2 was killed by signal \3/p' "$log" | head -n 1)
    echo "train.sh: ${rank:-a rank was killed by signal $((code - 128))}" >&2
  fi
  case "$code" in
    0 | 2 | 3 | 5 | 7 | 9 | 10 | 11 | 130) exit "$code" ;;
  esac
  [ -z "$stopping" ] || exit "$code"
  if [ "$attempt" -ge "$restarts" ]; then
    echo "train.sh: gave up after $restarts restarts; the last code was $code" >&2
    exit "$code"
  fi
  echo "train.sh: code $code; starting again from the last checkpoint ($((attempt + 1)) of $restarts)" >&2
done
