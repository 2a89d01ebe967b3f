// What one thread of the CUDA body does; the CPU's tests run it too.
#pragma once

#include "kernels/adamw_view/adamw_view_math.h"
#include "kernels/cuda/compact.h"

namespace pulse::kernels {

// The step, the BF16 view of the new w, and which elements of the view changed.
struct AdamWViewOp {
  static constexpr int kPack = 4;
  struct Item {};

  AdamWScalars scalars;
  float* w;
  float* m;
  float* v;
  const float* g;
  uint16_t* view;
  uint32_t* positions;

  template <int N>
  PULSE_HOST_DEVICE uint32_t Examine(uint64_t at, Item* /*items*/) const {
    Pack<float, N> w1 = LoadPack<N>(w + at), m1 = LoadPack<N>(m + at), v1 = LoadPack<N>(v + at);
    const Pack<float, N> g1 = LoadPack<N>(g + at);
    Pack<uint16_t, N> seen;
    uint32_t kept = 0;
    for (int i = 0; i < N; ++i) {
      const bool changed = AdamWViewElement(scalars, w1.x[i], m1.x[i], v1.x[i], g1.x[i], seen.x[i]);
      kept |= static_cast<uint32_t>(changed) << i;
    }
    StorePack(w + at, w1);
    StorePack(m + at, m1);
    StorePack(v + at, v1);
    StorePack(view + at, seen);
    return kept;
  }
  PULSE_HOST_DEVICE void Emit(uint64_t slot, uint32_t position, const Item& /*item*/) const {
    positions[slot] = position;
  }
};

}  // namespace pulse::kernels
