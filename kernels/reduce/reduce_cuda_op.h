// What one thread of the CUDA bodies does; the CPU's tests run it too.
#pragma once

#include "kernels/cuda/launch_plan.h"
#include "kernels/cuda/pack.h"
#include "kernels/reduce/reduce_math.h"

namespace pulse::kernels {

struct AddDenseOp {
  float* sum;
  const float* addend;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    Pack<float, N> s = LoadPack<N>(sum + at);
    const Pack<float, N> a = LoadPack<N>(addend + at);
    for (int i = 0; i < N; ++i) s.x[i] = AddElement(s.x[i], a.x[i]);
    StorePack(sum + at, s);
  }
};

struct MeanOp {
  float* sum;
  float trainers;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    Pack<float, N> s = LoadPack<N>(sum + at);
    for (int i = 0; i < N; ++i) s.x[i] = MeanElement(s.x[i], trainers);
    StorePack(sum + at, s);
  }
};

// Positions of one update are distinct: no two threads meet at one sum.
struct AddSparseOp {
  float* sum;
  const uint64_t* starts;
  const uint32_t* positions;
  const float* values;

  PULSE_HOST_DEVICE void Run(const ScatterShare& share) const {
    float* block = sum + share.block * kScatterBlockElements;
    const uint64_t end = starts[share.block + 1];
    for (uint64_t i = starts[share.block] + share.first; i < end; i += share.step) {
      float& at = block[positions[i]];
      at = AddElement(at, values[i]);
    }
  }
};

}  // namespace pulse::kernels
