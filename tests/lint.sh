#!/usr/bin/env bash
# clang-tidy over every source file, with warnings as errors. Some twenty minutes on 2 cores; not part of
# tests/run.sh, which checks layering, headers and format.
#
# Usage: bash tests/lint.sh [FILE ...]
set -euo pipefail
cd "$(dirname "$0")/.."
bash launch/install_dependencies.sh
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
[ $# -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cc' 'kernels/*.cc' | grep -v -e '_test\.cc$' -e '_simd\.cc$')
[ $# -gt 0 ] && files=("$@")
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet
