// What one thread of the CUDA body does; the CPU's tests run it too.
#pragma once

#include "kernels/cuda/launch_plan.h"

namespace pulse::kernels {

template <typename Word>
struct ApplyOp {
  Word* words;
  const uint64_t* starts;
  const uint32_t* positions;
  const Word* steps;

  PULSE_HOST_DEVICE void Run(const ScatterShare& share) const {
    Word* block = words + share.block * kScatterBlockElements;
    const uint64_t end = starts[share.block + 1];
    for (uint64_t i = starts[share.block] + share.first; i < end; i += share.step) {
      Word& at = block[positions[i]];
      at = static_cast<Word>(at + steps[i]);
    }
  }
};

}  // namespace pulse::kernels
