#include "kernels/adamw/adamw_cuda.h"
#include "kernels/adamw/adamw_cuda_op.h"
#include "kernels/cuda/compact.cuh"

namespace pulse::kernels {
namespace {

bool SameLength(const DeviceAdamW& a) {
  return a.m.size == a.w.size && a.v.size == a.w.size && a.g.size == a.w.size;
}

AdamWOp OpOf(const AdamWScalars& scalars, const DeviceAdamW& a) {
  return {scalars, a.w.data, a.m.data, a.v.data, a.g.data};
}

}  // namespace

DeviceCode AdamWCuda(const AdamWScalars& scalars, const DeviceAdamW& arrays, DeviceStream stream) {
  if (!SameLength(arrays)) return cudaErrorInvalidValue;
  return LaunchElements<4>(OpOf(scalars, arrays), arrays.w.size,
                           AllAligned(arrays.w.data, arrays.m.data, arrays.v.data, arrays.g.data),
                           stream);
}

DeviceCode AdamWViewCuda(const AdamWScalars& scalars, const DeviceAdamW& arrays,
                         DeviceSpan<uint16_t> view, const CompactTarget& target,
                         DeviceStream stream) {
  if (!SameLength(arrays) || view.size != arrays.w.size) return cudaErrorInvalidValue;
  const AdamWViewOp op{OpOf(scalars, arrays), view.data, target.positions.data};
  return LaunchCompact(
      op, view.size,
      AllAligned(arrays.w.data, arrays.m.data, arrays.v.data, arrays.g.data, view.data), target,
      stream);
}

}  // namespace pulse::kernels
