// The class of one word.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/class_rank/class_rank.h"

namespace pulse::kernels {

template <typename Word>
uint32_t ExponentOf(Word word, const WordLayout& layout) {
  return static_cast<uint32_t>(word >> layout.exponent_shift) & layout.exponent_mask;
}

template <typename Word>
uint8_t ClassOf(Word word, const WordLayout& layout, uint32_t top) {
  const uint32_t below = top - std::min(ExponentOf(word, layout), top);
  return static_cast<uint8_t>(std::min<uint32_t>(below, uint32_t{kRankClasses - 1}));
}

}  // namespace pulse::kernels
