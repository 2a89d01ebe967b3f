#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that a commit must pass.
#
# Usage: bash tests/run.sh [ctest arguments, e.g. -R publisher]     with arguments: those tests only
set -euo pipefail
cd "$(dirname "$0")/.."

bash launch/install_dependencies.sh
bash tests/stores/make_venv.sh
# Open MPI refuses root unless told twice; the tests run as whoever calls.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cmake --preset release
cmake --build --preset release
cmake --build --preset headers
[ $# -gt 0 ] || bash tests/fuzz.sh 10
# As many at a time as there are cores; what needs the machine for itself says so to CTest.
exec ctest --preset release -j "$(nproc)" "$@"
