#!/usr/bin/env bash
# Everything that needs a GPU, in one go and under ten minutes: builds, compares each kernel, both codecs
# and whole training runs with the CPU bit for bit, runs the communicator's suite over NCCL on every GPU
# (host and device memory), trains with the program itself on both, looks for memory errors and races
# with compute-sanitizer, and measures each kernel and both codecs against the card's own copy. Ends with
# tables. A step that would not fit the ten minutes any more is left out, and the table says so.
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
budget=570  # seconds, for all of it
step() {  # step NAME SECONDS COMMAND..: a line of the table; the output only where it fails
  local name=$1 limit=$2 begin=$SECONDS outcome=passed left=$((budget - SECONDS))
  shift 2
  if [ "$left" -lt 5 ]; then
    table+=("$(printf '%-34s %-8s' "$name" "NO TIME")")
    failed=1
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  if ! timeout "$limit" bash -c '"$@"' step "$@" >"$log/out" 2>&1; then
    outcome=FAILED
    failed=1
    tail -n 60 "$log/out"
  fi
  table+=("$(printf '%-34s %-8s %5d s' "$name" "$outcome" $((SECONDS - begin)))")
}

targets=(kernels_gpu_test codec_gpu_test arrays_gpu_test kernels_gpu_bench codec_gpu_bench
  kernel_cuda_host_test)
gpu=$build/tests/gpu
step configure 30 cmake --preset cuda -B "$build" -DPULSE_MPI="${PULSE_GPU_MPI:-OFF}"
grep -q '^PULSE_NCCL:FILEPATH=.*NOTFOUND' "$build/CMakeCache.txt" || targets+=(nccl_gpu_test)
[ "${PULSE_GPU_MPI:-OFF}" = ON ] && targets+=(pulseloco)
# A build folder that was brought along costs seconds here.
step build 240 cmake --build "$build" --target "${targets[@]}"
step "kernels against the CPU" 60 "$gpu/kernels_gpu_test"
step "codecs against the CPU" 60 "$gpu/codec_gpu_test"
step "training runs against the CPU" 90 "$gpu/arrays_gpu_test"
[ -x "$gpu/nccl_gpu_test" ] && step "NCCL suite" 60 "$gpu/nccl_gpu_test"
# The program, with both kinds of arrays: the same digest of theta after every round.
same_digests() {
  local where
  for where in cpu cuda; do
    "$build/pulseloco" train configs/synthetic.yaml --device $where --set run.dir="$log/$where" \
      --set trainer.elements=3000000 --set loco.rounds=4 --set publish.codec=small || return 1
    grep -o '"theta_digest":"[0-9a-f]*"\|"digest":"[0-9a-f]*"' "$log/$where/metrics.jsonl" >"$log/$where.digests"
  done
  [ -s "$log/cpu.digests" ] && cmp "$log/cpu.digests" "$log/cuda.digests"
}
export -f same_digests
export build log
[ -x "$build/pulseloco" ] && step "train --device cpu and cuda" 60 same_digests
timeout 60 "$gpu/kernels_gpu_bench" >"$log/bench" 2>&1 || failed=1
timeout 60 "$gpu/codec_gpu_bench" >"$log/codec_bench" 2>&1 || failed=1
# The sanitizer slows a kernel down tens of times, so it gets one of each kind of kernel, and the codecs
# with damaged bytes.
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    step "compute-sanitizer $tool, kernels" 40 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$gpu/kernels_gpu_test" --gtest_filter='*Gate*:*Cast*:*ALaunch*'
    step "compute-sanitizer $tool, codecs" 40 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$gpu/codec_gpu_test" --gtest_filter='*Damaged*'
  done
else
  table+=("$(printf '%-34s %-8s' compute-sanitizer 'MISSING')")
  failed=1
fi

echo
printf '%s\n' "${table[@]}"
echo
cat "$log/bench"
echo
cat "$log/codec_bench"
exit $failed
