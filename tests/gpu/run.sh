#!/usr/bin/env bash
# Everything that needs a GPU, in one go and under ten minutes: builds, compares each kernel with the
# CPU bit for bit, runs the communicator's suite over NCCL on every GPU, looks for memory errors and
# races with compute-sanitizer, and measures each kernel against the card's own copy. Ends with a table.
#
# Usage: bash tests/gpu/run.sh [BUILD_FOLDER]      default build/cuda
# Exit code: 0 all passed, 1 something failed, 77 no GPU here (nothing was run).
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/cuda}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

if ! nvidia-smi -L >"$log/probe" 2>&1 || ! grep -q '^GPU ' "$log/probe"; then
  echo "run.sh: no GPU here: $(head -1 "$log/probe")" >&2
  exit 77
fi
cat "$log/probe"
# From here on, a test that finds no device has failed.
export PULSE_GPU_REQUIRED=1

table=()
failed=0
step() {  # step NAME SECONDS COMMAND..: a line of the table; the output only where it fails
  local name=$1 limit=$2 begin=$SECONDS outcome=passed
  shift 2
  if ! timeout "$limit" "$@" >"$log/out" 2>&1; then
    outcome=FAILED
    failed=1
    tail -n 60 "$log/out"
  fi
  table+=("$(printf '%-34s %-8s %5d s' "$name" "$outcome" $((SECONDS - begin)))")
}

targets=(kernels_gpu_test kernels_gpu_bench kernel_cuda_host_test)
nccl=$build/tests/gpu/nccl_gpu_test
step configure 30 cmake --preset cuda -B "$build" -DPULSE_MPI=OFF
grep -q '^PULSE_NCCL:FILEPATH=.*NOTFOUND' "$build/CMakeCache.txt" || targets+=(nccl_gpu_test)
step build 180 cmake --build "$build" --target "${targets[@]}"
kernels=$build/tests/gpu/kernels_gpu_test
step "kernels against the CPU" 60 "$kernels"
[ -x "$nccl" ] && step "NCCL suite" 60 "$nccl"
# The sanitizer slows a kernel down tens of times, so it gets the small sizes' worth of time per tool.
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    step "compute-sanitizer $tool" 40 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$kernels" --gtest_filter='*Gate*:*Cast*:*ALaunch*'
  done
else
  table+=("$(printf '%-34s %-8s' compute-sanitizer 'MISSING')")
  failed=1
fi
timeout 60 "$build/tests/gpu/kernels_gpu_bench" >"$log/bench" 2>&1 || failed=1

echo
printf '%s\n' "${table[@]}"
echo
cat "$log/bench"
exit $failed
