#include "kernels/gate/gate_bodies.h"
#include "kernels/gate/gate_math.h"

namespace pulse::kernels {
namespace {

template <GateView view>
size_t Gate(std::span<const float> theta, std::span<const float> w, std::span<float> residual,
            uint32_t* positions, float* values) {
  size_t count = 0;
  for (size_t i = 0; i < theta.size(); ++i) {
    const float s = PseudoGradient(theta[i], w[i], residual[i]);
    if (IsVisible<view>(theta[i], s)) {
      positions[count] = static_cast<uint32_t>(i);
      values[count] = s;
      ++count;
      residual[i] = 0;
    } else {
      residual[i] = s;
    }
  }
  return count;
}

}  // namespace

size_t GateRef(GateView view, std::span<const float> theta, std::span<const float> w,
               std::span<float> residual, uint32_t* positions, float* values) {
  switch (view) {
    case GateView::kBF16:
      return Gate<GateView::kBF16>(theta, w, residual, positions, values);
    case GateView::kF32:
      return Gate<GateView::kF32>(theta, w, residual, positions, values);
    case GateView::kOpen:
      return Gate<GateView::kOpen>(theta, w, residual, positions, values);
  }
  return 0;
}

}  // namespace pulse::kernels
