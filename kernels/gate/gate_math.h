// One element of the gate, as gate.h writes it.
#pragma once

#include "kernels/arithmetic/canonical.h"
#include "kernels/cast_view/cast_view_math.h"
#include "kernels/gate/gate.h"

namespace pulse::kernels {

PULSE_HOST_DEVICE inline float PseudoGradient(float theta, float w, float residual) {
  return Canonical((theta - w) + residual);
}

template <GateView view>
PULSE_HOST_DEVICE inline bool IsVisible(float theta, float s) {
  if constexpr (view == GateView::kOpen) {
    return true;
  } else {
    const float moved = Canonical(theta - s);
    if constexpr (view == GateView::kBF16) {
      return BF16Element(theta) != BF16Element(moved);
    } else {
      return std::bit_cast<uint32_t>(theta) != std::bit_cast<uint32_t>(moved);
    }
  }
}

}  // namespace pulse::kernels
