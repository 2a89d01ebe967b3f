// One value rounded to a fraction of the BF16 spacing at its theta: loco/rounded_values.h says why.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/arithmetic/canonical.h"

namespace pulse::kernels {

struct RoundedValue {
  float sent;
  float rest;  // sent + rest is the value, exactly
  bool kept;   // false: the value rounds to nothing, and all of it is rest
};

// s to its nearest multiple (halves to even) of 2^-q times the BF16 spacing at theta. A value that
// can't be split so (not finite, zero, or too large to round) is sent as it is.
PULSE_HOST_DEVICE inline RoundedValue RoundValue(uint32_t q, float theta, float s) {
  constexpr int kDoubleBias = 1023, kFloatBias = 127, kBF16MantissaBits = 7;
  const int field = static_cast<int>(std::bit_cast<uint32_t>(theta) >> 23 & 0xFF);
  const auto exponent = static_cast<uint64_t>((field < 1 ? 1 : field) - kFloatBias -
                                              kBF16MantissaBits - static_cast<int>(q));
  // A power of two, far inside what a double holds.
  const double unit = std::bit_cast<double>((exponent + kDoubleBias) << 52);
  // In double both steps are exact but the rounding: a quotient by a power of two, and a product.
  auto sent = static_cast<float>(std::nearbyint(static_cast<double>(s) / unit) * unit);
  float rest = s - sent;
  const bool exact = static_cast<double>(sent) + static_cast<double>(rest) == s;
  if (!exact || s == 0) {
    sent = s;
    rest = 0;
  }
  return {sent, rest, sent != 0 || s == 0};
}

}  // namespace pulse::kernels
