// Ascending numbers below a bound <-> bits, as docs/format.md has them under "Rank list"; the plain
// twin is codec/rank_list.cc.
#pragma once

#include "kernels/cuda/team.h"

namespace pulse::kernels {

inline constexpr uint32_t kRankMaxUnary = 24;

struct RankGapCode {
  uint32_t low_bits, plain_bits;
};

PULSE_HOST_DEVICE inline RankGapCode RankGapCodeFor(uint64_t listed, uint64_t bound) {
  uint32_t low_bits = 0;
  while ((listed << (low_bits + 1)) * 10'000 <= 4'812 * (2 * bound - listed)) ++low_bits;
  return {low_bits, BitWidth(bound)};
}

struct RankBits {
  uint64_t value;
  uint32_t bits;
};

PULSE_HOST_DEVICE inline RankBits BitsOfRankGap(const RankGapCode& code, uint32_t gap) {
  const uint32_t high = gap >> code.low_bits;
  if (high >= kRankMaxUnary) {
    const uint64_t rest = gap - (kRankMaxUnary << code.low_bits);
    return {rest << kRankMaxUnary, kRankMaxUnary + code.plain_bits};
  }
  const uint64_t low = gap & ((1u << code.low_bits) - 1);
  return {(low << 1 | 1) << high, high + 1 + code.low_bits};
}

// Fills `rest` with the numbers below `bound` that are not among `count` ascending ones.
template <typename Team>
PULSE_HOST_DEVICE void FillRest(const Team& team, const uint32_t* members, uint32_t count,
                                uint32_t bound, uint32_t* rest) {
  team.Each(count + 1, [&](uint32_t i) {
    const uint32_t end = i < count ? members[i] : bound;
    for (uint32_t v = i == 0 ? 0 : members[i - 1] + 1; v < end; ++v) rest[v - i] = v;
  });
}

// Puts `count` ranks below `bound` at bit `at`; returns the bit behind. rest: scratch of as many
// words as there are ranks.
template <typename Team>
PULSE_HOST_DEVICE uint64_t PutRanks(const Team& team, const uint32_t* ranks, uint32_t count,
                                    uint32_t bound, uint32_t* rest, uint32_t* words, uint64_t at) {
  if (count == 0 || count == bound) return at;
  const uint32_t* listed = ranks;
  uint32_t number = count;
  if (2 * uint64_t{count} > bound) {
    FillRest(team, ranks, count, bound, rest);
    listed = rest;
    number = bound - count;
  }
  const RankGapCode code = RankGapCodeFor(number, bound);
  const auto bits_of = [&](uint32_t i) {
    return BitsOfRankGap(code, listed[i] - (i == 0 ? 0 : listed[i - 1] + 1));
  };
  return at + team.Scan(
                  number, [&](uint32_t i) { return bits_of(i).bits; },
                  [&](uint32_t i, uint32_t before) {
                    const RankBits put = bits_of(i);
                    PutBits(team, words, at + before, put.value, put.bits);
                  });
}

PULSE_HOST_DEVICE inline uint32_t ReadRankGap(const RankGapCode& code, BitCursor& cursor) {
  const uint64_t bits = cursor.Peek();
  const uint32_t high = TrailingZeros(bits | uint64_t{1} << kRankMaxUnary);
  if (high == kRankMaxUnary) {
    cursor.at += kRankMaxUnary + code.plain_bits;
    const uint64_t mask = (uint64_t{1} << code.plain_bits) - 1;
    return (kRankMaxUnary << code.low_bits) + static_cast<uint32_t>(bits >> kRankMaxUnary & mask);
  }
  cursor.at += high + 1 + code.low_bits;
  const uint64_t mask = (uint64_t{1} << code.low_bits) - 1;
  return high << code.low_bits | static_cast<uint32_t>(bits >> (high + 1) & mask);
}

// By one thread: fills `ranks`, `count` of them, at most `bound`. False unless the bits are those
// of some such ranks; then `ranks` is unspecified.
PULSE_HOST_DEVICE inline bool ReadRanksBelow(BitCursor& cursor, uint32_t bound, uint32_t* ranks,
                                             uint32_t count) {
  if (2 * uint64_t{count} <= bound) {
    if (count == 0) return true;
    const RankGapCode code = RankGapCodeFor(count, bound);
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; ++i) {
      ranks[i] = next + ReadRankGap(code, cursor);
      if (ranks[i] >= bound) return false;
      next = ranks[i] + 1;
    }
    return true;
  }
  uint32_t filled = 0, next = 0;
  if (count < bound) {
    const RankGapCode code = RankGapCodeFor(bound - count, bound);
    for (uint32_t i = 0; i < bound - count; ++i) {
      const uint32_t missing = next + ReadRankGap(code, cursor);
      if (missing > count + i) return false;
      for (; next < missing; ++next) ranks[filled++] = next;
      next = missing + 1;
    }
  }
  for (; next < bound; ++next) ranks[filled++] = next;
  return true;
}

}  // namespace pulse::kernels
