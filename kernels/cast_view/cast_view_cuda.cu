#include "kernels/cast_view/cast_view_cuda.h"
#include "kernels/cast_view/cast_view_cuda_op.h"
#include "kernels/cuda/elementwise.cuh"

namespace pulse::kernels {

DeviceCode CastToBF16Cuda(DeviceSpan<const float> in, DeviceSpan<uint16_t> out,
                          DeviceStream stream) {
  if (in.size != out.size) return cudaErrorInvalidValue;
  return LaunchElements<4>(CastToBF16Op{in.data, out.data}, in.size, AllAligned(in.data, out.data),
                           stream);
}

}  // namespace pulse::kernels
