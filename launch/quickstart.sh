#!/usr/bin/env bash
# The main job, end to end, on this machine: installs what is missing, builds, and post-trains a small
# transformer to play Wordle with 4 trainers in PULSELoCo rounds, while 2 followers in processes of
# their own rebuild every published version from the bucket.
#
# Usage: bash launch/quickstart.sh [KEY=VALUE ...]     e.g. loco.rounds=20 run.dir=runs/short
# The run lies in run.dir, which is runs/quickstart. A call after an interrupted one (Ctrl-C, a lost
# machine) continues from the last checkpoint, to the same bits. A call after a finished one only prints its
# table; remove the folder to run it again.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
run=runs/quickstart
settings=()
for setting in "$@"; do
  case "$setting" in
    run.dir=*) run=${setting#run.dir=} ;;
    *=*) settings+=(--set "$setting") ;;
    *) echo "quickstart.sh: $setting: expected KEY=VALUE, such as loco.rounds=20" >&2; exit 2 ;;
  esac
done

program=build/release/pulseloco
trainers=4

bash launch/install_dependencies.sh --build-only
if [ ! -f build/release/build.ninja ]; then
  # The tests are left to tests/run.sh, which turns them on again.
  tests=OFF
  [ -f /usr/include/gmock/gmock.h ] && tests=ON
  cmake --preset release -DPULSE_BUILD_TESTS=$tests >/dev/null
fi
cmake --build build/release --target pulseloco

# What Ctrl-C stopped has an end too, and final weights, but not all its rounds.
if grep -q '"stopped":false,"type":"end"' "$run/metrics.jsonl" 2>/dev/null; then
  echo "$run holds a finished run; remove it to run again."
  exec "$program" report "$run"
fi
if [ -f "$run/metrics.jsonl" ] || [ -d "$run/follower-0" ]; then
  echo "$run holds an unfinished run; continuing it."
elif [ -n "$(ls -A "$run" 2>/dev/null)" ]; then
  echo "quickstart.sh: $run is not empty and holds no run; set another run.dir" >&2
  exit 2
fi
mkdir -p "$run"

# Open MPI refuses root unless told twice, and more ranks than cores unless told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

followers=()
stop() {
  for pid in "${followers[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT TERM

follow() {  # in the background
  local evaluate=()
  mkdir -p "$run/follower-$1"
  [ "$1" = 0 ] && evaluate=(--evaluate "$run/config.yaml")
  "$program" follow --bucket "$run/bucket" --run quickstart --out "$run/follower-$1/current.safetensors" \
    --every-version --until-final --wait --poll 200ms --record "$run/follower-$1/versions.jsonl" \
    "${evaluate[@]}" --progress never >"$run/follower-$1/log" 2>&1 &
  followers[$1]=$!
}
# The last version of a run that Ctrl-C stopped says that it is final, and followers would end there.
stopped=
grep -q '"stopped":true,"type":"end"' "$run/metrics.jsonl" 2>/dev/null && stopped=1
[ -n "$stopped" ] || for i in 0 1; do follow $i; done

# mpirun's pipes hide the terminal from the ranks, so say whether there is one.
progress=auto
[ -t 2 ] && progress=always
mpirun -n $trainers --oversubscribe --bind-to none "$program" train configs/quickstart.yaml \
  --set run.dir="$run" --set run.name=quickstart --resume --progress $progress "${settings[@]}"
[ -z "$stopped" ] || for i in 0 1; do follow $i; done

for i in 0 1; do
  if ! wait "${followers[$i]}"; then
    echo "quickstart.sh: follower $i failed:" >&2
    tail -n 3 "$run/follower-$i/log" >&2
    exit 1
  fi
done
followers=()
echo
exec "$program" report "$run"
