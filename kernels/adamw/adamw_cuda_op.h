// What one thread of the CUDA bodies does; the CPU's tests run it too.
#pragma once

#include "kernels/adamw/adamw_math.h"
#include "kernels/cast_view/cast_view_math.h"
#include "kernels/cuda/compact.h"

namespace pulse::kernels {

struct AdamWOp {
  AdamWScalars scalars;
  float* w;
  float* m;
  float* v;
  const float* g;

  // The step on N elements; returns the new w.
  template <int N>
  PULSE_HOST_DEVICE Pack<float, N> Step(uint64_t at) const {
    Pack<float, N> w1 = LoadPack<N>(w + at), m1 = LoadPack<N>(m + at), v1 = LoadPack<N>(v + at);
    const Pack<float, N> g1 = LoadPack<N>(g + at);
    for (int i = 0; i < N; ++i) AdamWElement(scalars, w1.x[i], m1.x[i], v1.x[i], g1.x[i]);
    StorePack(w + at, w1);
    StorePack(m + at, m1);
    StorePack(v + at, v1);
    return w1;
  }

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    Step<N>(at);
  }
};

// The step, the BF16 view of the new w, and which elements of the view changed.
struct AdamWViewOp {
  static constexpr int kPack = 4;
  struct Item {};

  AdamWOp step;
  uint16_t* view;
  uint32_t* positions;

  template <int N>
  PULSE_HOST_DEVICE uint32_t Examine(uint64_t at, Item* /*items*/) const {
    const Pack<float, N> w1 = step.Step<N>(at);
    Pack<uint16_t, N> seen = LoadPack<N>(view + at);
    uint32_t kept = 0;
    for (int i = 0; i < N; ++i) {
      const uint16_t now = BF16Element(w1.x[i]);
      kept |= static_cast<uint32_t>(now != seen.x[i]) << i;
      seen.x[i] = now;
    }
    StorePack(view + at, seen);
    return kept;
  }
  PULSE_HOST_DEVICE void Emit(uint64_t slot, uint32_t position, const Item& /*item*/) const {
    positions[slot] = position;
  }
};

}  // namespace pulse::kernels
