#!/usr/bin/env bash
# The same data budget in the three modes, one table: pulseloco, diloco and ddp on the Wordle task.
#
# Usage: bash launch/compare.sh [KEY=VALUE ...]      e.g. loco.rounds=30
# Runs lie in <run.dir>-<mode>/, which is runs/compare-<mode>/; finished ones are not run again, and
# an interrupted one continues from its last checkpoint.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

program=build/release/pulseloco
[ -x "$program" ] || { echo "compare.sh: build first: bash launch/quickstart.sh" >&2; exit 1; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
prefix=runs/compare
settings=()
for setting in "$@"; do
  case "$setting" in
    run.dir=*) prefix=${setting#run.dir=} ;;
    *=*) settings+=(--set "$setting") ;;
    *) echo "compare.sh: $setting: expected KEY=VALUE, such as loco.rounds=30" >&2; exit 2 ;;
  esac
done

runs=()
for mode in pulseloco diloco ddp; do
  run=$prefix-$mode
  runs+=("$run")
  # What Ctrl-C stopped has an end and final weights too.
  grep -q '"stopped":false,"type":"end"' "$run/metrics.jsonl" 2>/dev/null && continue
  echo "$mode"
  mpirun -n 4 --oversubscribe --bind-to none "$program" train configs/quickstart.yaml \
    --set run.dir="$run" --set run.name="$mode" --set loco.mode="$mode" --resume "${settings[@]}"
done
exec "$program" report "${runs[@]}"
