#include "kernels/cuda/cuda_kernels.h"

#include "kernels/cast_view/cast_view_cuda.h"
#include "kernels/diff/diff_cuda.h"
#include "kernels/digest/digest_cuda.h"

namespace pulse::kernels {
namespace {

// One of several launchers of a name, by the op that it takes.
template <typename Op>
constexpr auto Encoder(DeviceCode (*launch)(const Op&, uint64_t, uint64_t, Scratch, DeviceStream)) {
  return launch;
}
template <typename Op>
constexpr auto Plain(DeviceCode (*launch)(const Op&, uint64_t, DeviceStream)) {
  return launch;
}

}  // namespace

DeviceKernels CudaKernels() {
  return {.name = "cuda",
          .adamw = AdamWCuda,
          .gate = GateRunsCuda,
          .pseudo_gradient = PseudoGradientCuda,
          .add_sparse = AddSparseCuda,
          .add_dense = AddDenseCuda,
          .mean = MeanCuda,
          .outer_step = OuterStepViewCuda,
          .count_unbounded = CountUnboundedCuda,
          .count_nonzero = CountNonZeroCuda,
          .count_view_changes = CountViewChangesCuda,
          .cast_to_bf16 = CastToBF16Cuda,
          .diff = DiffCuda,
          .chunk_digests = ChunkDigestsCuda,
          .synthetic_gradient = SyntheticGradientCuda,
          .sparse_small_encode = SparseSmallEncodeCuda,
          .sparse_small_decode = SparseSmallDecodeCuda,
          .sparse_fast_encode = SparseFastEncodeCuda,
          .sparse_fast_decode = SparseFastDecodeCuda,
          .small_delta_encode16 = Encoder<SmallDeltaEncodeOp<uint16_t>>(SmallDeltaEncodeCuda),
          .small_delta_encode32 = Encoder<SmallDeltaEncodeOp<uint32_t>>(SmallDeltaEncodeCuda),
          .small_delta_apply16 = Encoder<SmallDeltaApplyOp<uint16_t>>(SmallDeltaApplyCuda),
          .small_delta_apply32 = Encoder<SmallDeltaApplyOp<uint32_t>>(SmallDeltaApplyCuda),
          .word_steps_encode16 = Plain<WordStepsEncodeOp<uint16_t>>(WordStepsEncodeCuda),
          .word_steps_encode32 = Plain<WordStepsEncodeOp<uint32_t>>(WordStepsEncodeCuda),
          .word_steps_apply16 = Encoder<WordStepsApplyOp<uint16_t>>(WordStepsApplyCuda),
          .word_steps_apply32 = Encoder<WordStepsApplyOp<uint32_t>>(WordStepsApplyCuda)};
}

}  // namespace pulse::kernels
