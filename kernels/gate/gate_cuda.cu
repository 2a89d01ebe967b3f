#include "kernels/cuda/compact.cuh"
#include "kernels/gate/gate_cuda.h"
#include "kernels/gate/gate_cuda_op.h"

namespace pulse::kernels {
namespace {

template <GateView view>
DeviceCode Gate(DeviceSpan<const float> theta, DeviceSpan<const float> w,
                DeviceSpan<float> residual, const CompactTarget& target, DeviceSpan<float> values,
                DeviceStream stream) {
  const GateOp<view> op{theta.data, w.data, residual.data, target.positions.data, values.data};
  return LaunchCompact(op, theta.size, AllAligned(theta.data, w.data, residual.data), target,
                       stream);
}

}  // namespace

DeviceCode GateCuda(GateView view, DeviceSpan<const float> theta, DeviceSpan<const float> w,
                    DeviceSpan<float> residual, const CompactTarget& target,
                    DeviceSpan<float> values, DeviceStream stream) {
  if (w.size != theta.size || residual.size != theta.size || values.size < theta.size) {
    return cudaErrorInvalidValue;
  }
  switch (view) {
    case GateView::kBF16:
      return Gate<GateView::kBF16>(theta, w, residual, target, values, stream);
    case GateView::kF32:
      return Gate<GateView::kF32>(theta, w, residual, target, values, stream);
    case GateView::kOpen:
      return Gate<GateView::kOpen>(theta, w, residual, target, values, stream);
  }
  return cudaErrorInvalidValue;
}

DeviceCode GateRunsCuda(const GateRunsOp& op, uint64_t n, const CompactTarget& target,
                        DeviceStream stream) {
  if (op.positions != target.positions.data) return cudaErrorInvalidValue;
  return LaunchCompact(op, n, AllAligned(op.theta, op.w, op.residual), target, stream);
}

DeviceCode PseudoGradientCuda(const PseudoGradientOp& op, uint64_t n, DeviceStream stream) {
  return LaunchElements<4>(op, n, AllAligned(op.theta, op.w, op.s), stream);
}

}  // namespace pulse::kernels
