// The class of one word.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/class_scan/class_scan.h"

namespace pulse::kernels {

template <typename Word>
uint32_t ExponentOf(Word word, const WordLayout& layout) {
  return static_cast<uint32_t>(word >> layout.exponent_shift) & layout.exponent_mask;
}

template <typename Word>
uint8_t ClassOf(Word word, const WordLayout& layout, uint32_t top) {
  const uint32_t exponent = ExponentOf(word, layout);
  return static_cast<uint8_t>(exponent >= top ? 0 : std::min<uint32_t>(top - exponent, 15));
}

}  // namespace pulse::kernels
