// What one thread of the CUDA body does; the CPU's tests run it too.
#pragma once

#include "kernels/cuda/compact.h"
#include "kernels/gate/gate_math.h"

namespace pulse::kernels {

template <GateView view>
struct GateOp {
  static constexpr int kPack = 4;
  using Item = float;  // s

  const float* theta;
  const float* w;
  float* residual;
  uint32_t* positions;
  float* values;

  template <int N>
  PULSE_HOST_DEVICE uint32_t Examine(uint64_t at, Item* items) const {
    const Pack<float, N> t = LoadPack<N>(theta + at), x = LoadPack<N>(w + at);
    Pack<float, N> e = LoadPack<N>(residual + at);
    uint32_t kept = 0;
    for (int i = 0; i < N; ++i) {
      const float s = PseudoGradient(t.x[i], x.x[i], e.x[i]);
      const bool visible = IsVisible<view>(t.x[i], s);
      kept |= static_cast<uint32_t>(visible) << i;
      items[i] = s;
      e.x[i] = visible ? 0.0f : s;
    }
    StorePack(residual + at, e);
    return kept;
  }
  PULSE_HOST_DEVICE void Emit(uint64_t slot, uint32_t position, const Item& s) const {
    positions[slot] = position;
    values[slot] = s;
  }
};

}  // namespace pulse::kernels
