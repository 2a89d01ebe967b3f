// The launchers of the device bodies, as a table: filled with CUDA's in
// kernels/cuda/cuda_kernels.h, and in tests with emulations that run the same bodies on the host
// (emulated_kernels.h). Host code that works on a device knows no more of it than this and
// device/driver.h.
#pragma once

#include <functional>
#include <string_view>

#include "kernels/adamw/adamw_cuda.h"
#include "kernels/checks/checks_cuda.h"
#include "kernels/gate/gate_cuda.h"
#include "kernels/reduce/reduce_cuda.h"
#include "kernels/small_delta/small_delta_cuda.h"
#include "kernels/sparse_small/sparse_small_cuda.h"
#include "kernels/synthetic/synthetic_cuda.h"
#include "kernels/word_steps/word_steps_cuda.h"

namespace pulse::kernels {

using Scratch = DeviceSpan<uint32_t>;
template <typename... Args>
using Launch = std::function<DeviceCode(Args..., DeviceStream)>;

// Each as its header says: <operation>_cuda.h.
struct DeviceKernels {
  std::string_view name;  // "cuda"
  Launch<const AdamWScalars&, const DeviceAdamW&> adamw;
  Launch<const GateRunsOp&, uint64_t, const CompactTarget&> gate;
  Launch<const PseudoGradientOp&, uint64_t> pseudo_gradient;
  Launch<DeviceSpan<float>, const DeviceSparseUpdate&> add_sparse;
  Launch<DeviceSpan<float>, DeviceSpan<const float>> add_dense;
  Launch<DeviceSpan<float>, float> mean;
  Launch<const OuterStepViewOp&, uint64_t> outer_step;
  Launch<const CountUnboundedOp&, uint64_t> count_unbounded;
  Launch<const CountNonZeroOp&, uint64_t> count_nonzero;
  Launch<const CountViewChangesOp&, uint64_t> count_view_changes;
  Launch<DeviceSpan<const float>, DeviceSpan<uint16_t>> cast_to_bf16;
  Launch<DeviceSpan<const uint8_t>, DeviceSpan<const uint8_t>, uint32_t, const CompactTarget&> diff;
  Launch<DeviceSpan<const uint8_t>, DeviceSpan<uint8_t>> chunk_digests;
  Launch<const SyntheticGradientOp&> synthetic_gradient;
  Launch<const SparseSmallEncodeOp&, uint64_t, uint64_t, Scratch> sparse_small_encode;
  Launch<const SparseSmallDecodeOp&, uint64_t, uint64_t, Scratch> sparse_small_decode;
  Launch<const SparseFastEncodeOp&, uint64_t> sparse_fast_encode;
  Launch<const SparseFastDecodeOp&, uint64_t, uint64_t, Scratch> sparse_fast_decode;
  Launch<const SmallDeltaEncodeOp<uint16_t>&, uint64_t, uint64_t, Scratch> small_delta_encode16;
  Launch<const SmallDeltaEncodeOp<uint32_t>&, uint64_t, uint64_t, Scratch> small_delta_encode32;
  Launch<const SmallDeltaApplyOp<uint16_t>&, uint64_t, uint64_t, Scratch> small_delta_apply16;
  Launch<const SmallDeltaApplyOp<uint32_t>&, uint64_t, uint64_t, Scratch> small_delta_apply32;
  Launch<const WordStepsEncodeOp<uint16_t>&, uint64_t> word_steps_encode16;
  Launch<const WordStepsEncodeOp<uint32_t>&, uint64_t> word_steps_encode32;
  Launch<const WordStepsApplyOp<uint16_t>&, uint64_t, uint64_t, Scratch> word_steps_apply16;
  Launch<const WordStepsApplyOp<uint32_t>&, uint64_t, uint64_t, Scratch> word_steps_apply32;
};

}  // namespace pulse::kernels
