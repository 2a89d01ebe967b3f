// One value, as grid_values.h writes it.
#pragma once

#include "kernels/grid_values/grid_values.h"
#include "kernels/sparse_small/grid_value.h"

namespace pulse::kernels {

inline uint32_t PlainOf(uint32_t theta, uint32_t value, unsigned coarser) {
  const unsigned below = BitsBelowGrid(theta, value >> 23 & 0xFF, coarser);
  const bool off = LowBits(value, below) != 0;
  const unsigned omitted = off ? 0 : below;
  return LowBits(value, kPlainMantissaBits) >> omitted |
         (kPlainMantissaBits - omitted) << kPlainCountShift | (off ? kOffGridFlag : 0);
}

inline uint32_t ValueOf(uint32_t theta, uint32_t symbol, uint32_t tail, unsigned coarser) {
  const unsigned below = BitsBelowGrid(theta, ExponentOfSymbol(symbol), coarser);
  // Two shifts: together they may be of all 32 bits.
  const uint32_t plain = tail >> 1 >> (31 - kPlainMantissaBits + below);
  return ValueOfSymbol(theta, symbol) | plain << below;
}

}  // namespace pulse::kernels
