// What one thread of the CUDA body does; the CPU's tests run it too.
#pragma once

#include "kernels/cuda/compact.h"

namespace pulse::kernels {

template <typename Word>
struct DiffOp {
  // Of bytes, 8 and not 16: a thread has kTileItems.
  static constexpr int kPack = sizeof(Word) < 8 ? (sizeof(Word) < 4 ? 8 : 4) : 2;
  struct Item {};

  const Word* before;
  const Word* after;
  uint32_t* positions;

  template <int N>
  PULSE_HOST_DEVICE uint32_t Examine(uint64_t at, Item* /*items*/) const {
    const Pack<Word, N> a = LoadPack<N>(before + at), b = LoadPack<N>(after + at);
    uint32_t kept = 0;
    for (int i = 0; i < N; ++i) kept |= static_cast<uint32_t>(a.x[i] != b.x[i]) << i;
    return kept;
  }
  PULSE_HOST_DEVICE void Emit(uint64_t slot, uint32_t position, const Item& /*item*/) const {
    positions[slot] = position;
  }
};

}  // namespace pulse::kernels
