// What one thread of the CUDA bodies does; the CPU's tests run it too.
#pragma once

#include "kernels/adamw/adamw_math.h"
#include "kernels/cuda/pack.h"

namespace pulse::kernels {

struct AdamWOp {
  AdamWScalars scalars;
  float* w;
  float* m;
  float* v;
  const float* g;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    Pack<float, N> w1 = LoadPack<N>(w + at), m1 = LoadPack<N>(m + at), v1 = LoadPack<N>(v + at);
    const Pack<float, N> g1 = LoadPack<N>(g + at);
    for (int i = 0; i < N; ++i) AdamWElement(scalars, w1.x[i], m1.x[i], v1.x[i], g1.x[i]);
    StorePack(w + at, w1);
    StorePack(m + at, m1);
    StorePack(v + at, v1);
  }
};

}  // namespace pulse::kernels
