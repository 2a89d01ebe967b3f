// One value of a sparse update against its theta, as codec "small" takes it apart: a symbol to be
// entropy coded, and plain bits.
//
//   symbol = value's exponent field (8 bits), highest mantissa bit, away
//   plain  = the mantissa's other 22 bits, without the `below` lowest if they are all zero
//   below  = clamp(theta's exponent + coarser - value's exponent, 0, 22), exponents as fields, 0
//            taken as 1; coarser: how many bits the values' grid is coarser than theta's
//   away   = sign(value) xor sign(theta) xor (theta lies in the upper half of its BF16 cell)
//
// A multiple of theta's FP32 spacing has zeros below it: `below` is how many bits that are. The
// gate lets pass what leaves theta's cell, so a value leads more often to the nearer edge than away
// from it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/arithmetic/canonical.h"

namespace pulse {

inline constexpr unsigned kPlainMantissaBits = 22;

PULSE_HOST_DEVICE inline uint32_t GridExponent(uint32_t bits) {
  return std::max<uint32_t>(bits >> 23 & 0xFF, 1);
}

// Of a value whose symbol, or whose bits, have this exponent field.
PULSE_HOST_DEVICE inline unsigned BitsBelowGrid(uint32_t theta, uint32_t value_exponent,
                                                unsigned coarser) {
  const auto below = static_cast<int32_t>(GridExponent(theta) + coarser) -
                     static_cast<int32_t>(std::max<uint32_t>(value_exponent, 1));
  return static_cast<unsigned>(std::clamp<int32_t>(below, 0, kPlainMantissaBits));
}

// 1 or 0: the sign bit of a value that leads to the farther edge.
PULSE_HOST_DEVICE inline uint32_t SignAway(uint32_t theta) {
  const uint32_t in_cell = (theta + 0x8000) & 0xFFFF;  // from the cell's lower edge, in spacings
  return theta >> 31 ^ static_cast<uint32_t>(in_cell > 0x8000);
}

PULSE_HOST_DEVICE inline uint32_t SymbolOf(uint32_t theta, uint32_t value) {
  return (value >> 22 & 0x1FF) << 1 | (value >> 31 ^ SignAway(theta));
}

PULSE_HOST_DEVICE inline uint32_t ExponentOfSymbol(uint32_t symbol) {
  return symbol >> 2;
}

// The value, all but its plain bits.
PULSE_HOST_DEVICE inline uint32_t ValueOfSymbol(uint32_t theta, uint32_t symbol) {
  return (symbol >> 1) << 22 | ((symbol & 1) ^ SignAway(theta)) << 31;
}

PULSE_HOST_DEVICE inline uint32_t LowBits(uint32_t value, unsigned bits) {
  return value & ((uint32_t{1} << bits) - 1);
}

// A value that is no multiple of the grid's spacing: its plain bits are written whole.
PULSE_HOST_DEVICE inline bool IsOffGrid(uint32_t theta, uint32_t value, unsigned coarser) {
  return LowBits(value, BitsBelowGrid(theta, value >> 23 & 0xFF, coarser)) != 0;
}

}  // namespace pulse
