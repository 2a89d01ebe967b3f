#include "kernels/checks/checks_cuda.h"
#include "kernels/cuda/elementwise.cuh"

namespace pulse::kernels {

DeviceCode CountUnboundedCuda(const CountUnboundedOp& op, uint64_t n, DeviceStream stream) {
  return LaunchElements<4>(op, n, AllAligned(op.x), stream);
}

DeviceCode CountNonZeroCuda(const CountNonZeroOp& op, uint64_t n, DeviceStream stream) {
  return LaunchElements<4>(op, n, AllAligned(op.x), stream);
}

DeviceCode CountViewChangesCuda(const CountViewChangesOp& op, uint64_t n, DeviceStream stream) {
  return LaunchElements<4>(op, n, AllAligned(op.before, op.after), stream);
}

DeviceCode OuterStepViewCuda(const OuterStepViewOp& op, uint64_t n, DeviceStream stream) {
  return LaunchElements<4>(op, n, AllAligned(op.sum, op.momentum, op.theta), stream);
}

}  // namespace pulse::kernels
