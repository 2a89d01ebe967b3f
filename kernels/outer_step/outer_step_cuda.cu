#include "kernels/cuda/elementwise.cuh"
#include "kernels/outer_step/outer_step_cuda.h"
#include "kernels/outer_step/outer_step_cuda_op.h"

namespace pulse::kernels {

DeviceCode OuterStepCuda(const OuterScalars& scalars, DeviceSpan<const float> sum,
                         DeviceSpan<float> momentum, DeviceSpan<float> theta, DeviceStream stream) {
  if (sum.size != theta.size || momentum.size != theta.size) return cudaErrorInvalidValue;
  return LaunchElements<4>(OuterStepOp{scalars, sum.data, momentum.data, theta.data}, theta.size,
                           AllAligned(sum.data, momentum.data, theta.data), stream);
}

}  // namespace pulse::kernels
