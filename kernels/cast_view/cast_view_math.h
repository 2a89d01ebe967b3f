// One element of the BF16 view, as cast_view.h writes it.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/arithmetic/canonical.h"

namespace pulse::kernels {

PULSE_HOST_DEVICE inline uint16_t BF16Element(float in) {
  const uint32_t bits = std::bit_cast<uint32_t>(in);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  if (is_nan) return static_cast<uint16_t>((bits | 0x00400000) >> 16);  // quiet
  // Half of the last kept place, less one where the kept part is even: ties go to even. A carry out
  // of the significand is the next exponent, and at last infinity.
  const uint32_t odd = (bits >> 16) & 1;
  return static_cast<uint16_t>((bits + 0x7FFF + odd) >> 16);
}

}  // namespace pulse::kernels
