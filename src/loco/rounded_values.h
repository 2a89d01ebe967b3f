// Beyond the paper: values rounded to a fraction of the BF16 spacing at theta, so that they take
// fewer bytes. What rounding took away waits in the residual: nothing is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pulse::loco {

inline constexpr unsigned kMostRoundedBits = 12;

// For each of a gate's entries: values[i] becomes its nearest multiple (halves to even) of
// 2^-q times the BF16 spacing at theta[positions[i]], and residual[positions[i]] the rest, so that
// value + residual is what it was, exactly. An entry whose value rounds to 0 is taken out and waits
// whole. A value that can't be split so (not finite, zero, or too large to round) stays as it is.
// Returns the entries left, at the front of positions and values. q <= kMostRoundedBits.
size_t RoundValues(unsigned q, std::span<const float> theta, std::span<uint32_t> positions,
                   std::span<float> values, std::span<float> residual);

}  // namespace pulse::loco
