// Ascending numbers below a bound <-> bits: Rice-coded gaps. Near the entropy of a random choice
// when the numbers are spread evenly (0.03 bits each above it), and not far off when they are not.
#pragma once

#include <cstdint>
#include <span>

#include "codec/bit_stream.h"
#include "core/status.h"

namespace pulse {

// The most numbers, and the largest bound.
inline constexpr uint32_t kMaxRankBound = uint32_t{1} << 20;

// The most bits that WriteRanks writes for `count` ranks below `bound`.
constexpr uint64_t MaxRankBits(uint64_t count, uint64_t bound) {
  return 45 * (count < bound - count ? count : bound - count);
}

// ranks: strictly ascending, below `bound` <= kMaxRankBound. The writer has room for MaxRankBits.
// How many there are is not written.
void WriteRanks(std::span<const uint32_t> ranks, uint32_t bound, BitWriter& writer);

// Fills `ranks`, at most `bound` of them. kDataLoss unless the bits are those of some such ranks;
// then `ranks` is unspecified. Bits behind the reader's end count as zeros: the caller checks
// IsSpent().
Status ReadRanks(BitReader& reader, uint32_t bound, std::span<uint32_t> ranks);

// The same, as bits: bit r % 64 of ranks[r / 64] says whether r is one of the `count` ranks (at
// most `bound`). ranks: zeros, as far as the word of bound - 1.
Status ReadRankBits(BitReader& reader, uint32_t bound, uint32_t count, uint64_t* ranks);

}  // namespace pulse
