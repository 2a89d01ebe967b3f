#include "kernels/cuda/compact.cuh"
#include "kernels/gate/gate_cuda.h"

namespace pulse::kernels {

DeviceCode GateRunsCuda(const GateRunsOp& op, uint64_t n, const CompactTarget& target,
                        DeviceStream stream) {
  if (op.positions != target.positions.data) return cudaErrorInvalidValue;
  return LaunchCompact(op, n, AllAligned(op.theta, op.w, op.residual), target, stream);
}

DeviceCode PseudoGradientCuda(const PseudoGradientOp& op, uint64_t n, DeviceStream stream) {
  return LaunchElements<4>(op, n, AllAligned(op.theta, op.w, op.s), stream);
}

}  // namespace pulse::kernels
