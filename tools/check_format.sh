#!/usr/bin/env bash
# Fails and names the files that `clang-format -i` would change.
# Usage: check_format.sh REPO_ROOT
set -euo pipefail
cd "$1"
find src kernels tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | sort | xargs clang-format --dry-run --Werror
