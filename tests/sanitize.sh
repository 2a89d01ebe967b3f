#!/usr/bin/env bash
# All tests but those of LibTorch under the address, undefined-behaviour and thread sanitizers.
# Takes about half an hour on 2 cores. Not part of tests/run.sh.
#
# Usage: bash tests/sanitize.sh [asan|tsan ...]
set -euo pipefail
cd "$(dirname "$0")/.."
bash launch/install_dependencies.sh
bash tests/stores/make_venv.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ $# -gt 0 ] || set -- asan tsan
for preset in "$@"; do
  cmake --preset "$preset"
  cmake --build --preset "$preset"
  ctest --preset "$preset" -LE program
done
