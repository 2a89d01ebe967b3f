#include "kernels/cuda/elementwise.cuh"
#include "kernels/synthetic/synthetic_cuda.h"

namespace pulse::kernels {

DeviceCode SyntheticGradientCuda(const SyntheticGradientOp& op, DeviceStream stream) {
  return LaunchElements<4>(op, op.n, AllAligned(op.gradient), stream);
}

}  // namespace pulse::kernels
