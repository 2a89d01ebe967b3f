#include "kernels/adamw_view/adamw_view_cuda.h"
#include "kernels/adamw_view/adamw_view_cuda_op.h"
#include "kernels/cuda/compact.cuh"

namespace pulse::kernels {

DeviceCode AdamWViewCuda(const AdamWScalars& scalars, const DeviceAdamW& a,
                         DeviceSpan<uint16_t> view, const CompactTarget& target,
                         DeviceStream stream) {
  if (a.m.size != a.w.size || a.v.size != a.w.size || a.g.size != a.w.size ||
      view.size != a.w.size) {
    return cudaErrorInvalidValue;
  }
  const AdamWViewOp op{
      scalars, a.w.data, a.m.data, a.v.data, a.g.data, view.data, target.positions.data};
  return LaunchCompact(op, view.size, AllAligned(a.w.data, a.m.data, a.v.data, a.g.data, view.data),
                       target, stream);
}

}  // namespace pulse::kernels
