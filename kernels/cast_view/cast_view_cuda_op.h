// What one thread of the CUDA body does; the CPU's tests run it too.
#pragma once

#include "kernels/cast_view/cast_view_math.h"
#include "kernels/cuda/pack.h"

namespace pulse::kernels {

struct CastToBF16Op {
  const float* in;
  uint16_t* out;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const Pack<float, N> x = LoadPack<N>(in + at);
    Pack<uint16_t, N> y;
    for (int i = 0; i < N; ++i) y.x[i] = BF16Element(x.x[i]);
    StorePack(out + at, y);
  }
};

}  // namespace pulse::kernels
