#include "codec/rank_list.h"

#include <algorithm>
#include <bit>

namespace pulse {
namespace {

// A gap's high part is written as so many zeros and a one; from here on, as this many zeros and the
// rest in plain bits. So a long stretch without entries costs no more than kMaxUnary + 21 bits.
constexpr uint32_t kMaxUnary = 24;
static_assert(kMaxUnary + std::bit_width(kMaxRankBound) == MaxRankBits(1, 2));

// How the gaps of `listed` numbers below `bound` are split. listed is 1 .. bound - 1.
struct GapCode {
  unsigned low_bits;    // written as they are
  unsigned plain_bits;  // of a gap that is too long
};

// The best Rice parameter for gaps of a random choice of density p is the least k with
// 2^k > ln(phi) / -ln(1 - p), phi the golden ratio (Kiely 2004, JPL IPN 42-159), and
// 1 / -ln(1 - p) is nearly 1 / p - 1 / 2. In whole numbers, so that all machines agree.
GapCode GapCodeFor(uint64_t listed, uint64_t bound) {
  unsigned low_bits = 0;
  while ((listed << (low_bits + 1)) * 10'000 <= 4'812 * (2 * bound - listed)) ++low_bits;
  return {low_bits, static_cast<unsigned>(std::bit_width(bound))};
}

class GapWriter {
 public:
  GapWriter(GapCode code, BitWriter& writer) : code_(code), writer_(writer) {}

  void Write(uint32_t rank) {
    const uint32_t gap = rank - next_;
    next_ = rank + 1;
    const uint32_t high = gap >> code_.low_bits;
    if (high >= kMaxUnary) {
      const uint64_t rest = gap - (kMaxUnary << code_.low_bits);
      writer_.Write(rest << kMaxUnary, kMaxUnary + code_.plain_bits);
      return;
    }
    const uint64_t low = gap & ((1u << code_.low_bits) - 1);
    writer_.Write((low << 1 | 1) << high, high + 1 + code_.low_bits);
  }

 private:
  GapCode code_;
  BitWriter& writer_;
  uint32_t next_ = 0;
};

// Calls take(rank) for the next `count` ranks, ascending, until it returns false: a rank may be any
// number up to 2^22, the caller knows the bound. Returns whether all were taken.
//
// As many gaps as its bits hold are taken off one look at the reader: each look waits for where the
// one before it ended.
template <typename Take>
bool ReadGaps(BitReader& reader, GapCode code, uint64_t count, Take take) {
  const uint64_t low_mask = (uint64_t{1} << code.low_bits) - 1;
  const uint64_t plain_mask = (uint64_t{1} << code.plain_bits) - 1;
  uint64_t bits = reader.Peek();
  unsigned used = 0;  // of kMostBits
  uint32_t next = 0;
  while (count > 0) {
    const auto high = static_cast<unsigned>(std::countr_zero(bits | uint64_t{1} << kMaxUnary));
    const bool is_long = high == kMaxUnary;
    const unsigned length = is_long ? kMaxUnary + code.plain_bits : high + 1 + code.low_bits;
    if (used + length > kMostBits) {
      reader.Skip(used);
      bits = reader.Peek();
      used = 0;
      continue;
    }
    const uint64_t low = is_long ? bits >> kMaxUnary & plain_mask : bits >> (high + 1) & low_mask;
    const uint32_t rank = next + (high << code.low_bits) + static_cast<uint32_t>(low);
    if (!take(rank)) return false;
    next = rank + 1;
    bits >>= length;
    used += length;
    --count;
  }
  reader.Skip(used);
  return true;
}

Status OutOfRange(uint32_t rank, uint32_t bound) {
  return DataLoss("rank {} where there are {}", rank, bound);
}

}  // namespace

void WriteRanks(std::span<const uint32_t> ranks, uint32_t bound, BitWriter& writer) {
  const uint64_t count = ranks.size();
  if (count == 0 || count == bound) return;
  if (2 * count <= bound) {
    GapWriter gaps(GapCodeFor(count, bound), writer);
    for (const uint32_t rank : ranks) gaps.Write(rank);
    return;
  }
  // Those that are missing are fewer.
  GapWriter gaps(GapCodeFor(bound - count, bound), writer);
  uint32_t next = 0;
  for (const uint32_t rank : ranks) {
    for (; next < rank; ++next) gaps.Write(next);
    next = rank + 1;
  }
  for (; next < bound; ++next) gaps.Write(next);
}

Status ReadRanks(BitReader& reader, uint32_t bound, std::span<uint32_t> ranks) {
  const uint64_t count = ranks.size();
  uint32_t last = 0;
  size_t filled = 0;
  if (2 * count <= bound) {
    if (count == 0) return OkStatus();
    const bool all = ReadGaps(reader, GapCodeFor(count, bound), count, [&](uint32_t rank) {
      last = rank;
      if (rank >= bound) return false;
      ranks[filled++] = rank;
      return true;
    });
    return all ? OkStatus() : OutOfRange(last, bound);
  }
  uint32_t next = 0;
  if (count < bound) {
    const bool all =
        ReadGaps(reader, GapCodeFor(bound - count, bound), bound - count, [&](uint32_t missing) {
          last = missing;
          // Room must be left for those that are still to come, and below it
          // no more than there are.
          if (missing - next > count - filled) return false;
          for (; next < missing; ++next) ranks[filled++] = next;
          next = missing + 1;
          return true;
        });
    if (!all) return OutOfRange(last, bound);
  }
  for (; next < bound; ++next) ranks[filled++] = next;
  return OkStatus();
}

Status ReadRankBits(BitReader& reader, uint32_t bound, uint32_t count, uint64_t* ranks) {
  if (count == 0) return OkStatus();
  // Those that are missing are fewer, and begin as ones.
  const bool missing = 2 * uint64_t{count} > bound;
  if (missing) {
    std::fill_n(ranks, bound / 64, ~uint64_t{0});
    if (bound % 64 != 0) ranks[bound / 64] = (uint64_t{1} << bound % 64) - 1;
    if (count == bound) return OkStatus();
  }
  const uint32_t listed = missing ? bound - count : count;
  uint32_t last = 0;
  const bool all = ReadGaps(reader, GapCodeFor(listed, bound), listed, [&](uint32_t rank) {
    last = rank;
    if (rank >= bound) return false;
    ranks[rank / 64] ^= uint64_t{1} << rank % 64;
    return true;
  });
  return all ? OkStatus() : OutOfRange(last, bound);
}

}  // namespace pulse
