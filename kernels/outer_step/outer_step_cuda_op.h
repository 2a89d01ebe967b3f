// What one thread of the CUDA body does; the CPU's tests run it too.
#pragma once

#include "kernels/cuda/pack.h"
#include "kernels/outer_step/outer_step_math.h"

namespace pulse::kernels {

struct OuterStepOp {
  OuterScalars scalars;
  const float* sum;
  float* momentum;
  float* theta;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const Pack<float, N> s = LoadPack<N>(sum + at);
    Pack<float, N> b = LoadPack<N>(momentum + at), t = LoadPack<N>(theta + at);
    for (int i = 0; i < N; ++i) OuterStepElement(scalars, s.x[i], b.x[i], t.x[i]);
    StorePack(momentum + at, b);
    StorePack(theta + at, t);
  }
};

}  // namespace pulse::kernels
