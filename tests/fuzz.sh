#!/usr/bin/env bash
# Fuzzes every reader of foreign bytes with libFuzzer (clang), under the address and undefined-behaviour
# sanitizers.
#
# Usage: bash tests/fuzz.sh [SECONDS_EACH]      10 by default
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
seconds=${1:-10}

bash launch/install_dependencies.sh
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers

fuzz() {  # PROGRAM
  local name corpora
  name=$(basename "$1")
  corpora=(build/fuzz/tests/fuzz/corpus/"$name")
  [ -d "tests/fuzz/corpus/$name" ] && corpora+=("tests/fuzz/corpus/$name")
  # No reader may take 256 MB at once for an input of a few kB.
  "$1" -max_total_time="$seconds" -malloc_limit_mb=256 -timeout=5 "${corpora[@]}" \
    >"build/fuzz/$name.log" 2>&1 ||
    { tail -n 40 "build/fuzz/$name.log" >&2; echo "fuzz.sh: $name found something" >&2; return 1; }
  echo "$name: $(grep -E '^(Done|#[0-9]+.DONE)' "build/fuzz/$name.log" | tail -n 1)"
}
export -f fuzz
export seconds
find build/fuzz/tests/fuzz -maxdepth 1 -type f -executable -name 'fuzz_*' -print0 | sort -z |
  xargs -0 -P "$(nproc)" -I {} bash -c 'set -euo pipefail; fuzz {}'
