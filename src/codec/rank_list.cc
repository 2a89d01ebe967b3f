#include "codec/rank_list.h"

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

class GapReader {
 public:
  GapReader(GapCode code, BitReader& reader) : code_(code), reader_(reader) {}

  // The next rank, which may be any number up to 2^22: the caller knows the bound.
  uint32_t Read() {
    const uint64_t bits = reader_.Peek();
    const auto high = static_cast<uint32_t>(std::countr_zero(bits | uint64_t{1} << kMaxUnary));
    uint32_t gap = 0;
    if (high == kMaxUnary) {
      const uint64_t mask = (uint64_t{1} << code_.plain_bits) - 1;
      gap = (kMaxUnary << code_.low_bits) + static_cast<uint32_t>(bits >> kMaxUnary & mask);
      reader_.Skip(kMaxUnary + code_.plain_bits);
    } else {
      const uint64_t mask = (uint64_t{1} << code_.low_bits) - 1;
      gap = high << code_.low_bits | static_cast<uint32_t>(bits >> (high + 1) & mask);
      reader_.Skip(high + 1 + code_.low_bits);
    }
    const uint32_t rank = next_ + gap;
    next_ = rank + 1;
    return rank;
  }

 private:
  GapCode code_;
  BitReader& reader_;
  uint32_t next_ = 0;
};

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
  if (2 * count <= bound) {
    if (count == 0) return OkStatus();
    GapReader gaps(GapCodeFor(count, bound), reader);
    for (uint32_t& rank : ranks) {
      rank = gaps.Read();
      if (rank >= bound) return OutOfRange(rank, bound);
    }
    return OkStatus();
  }
  size_t filled = 0;
  uint32_t next = 0;
  if (count < bound) {
    GapReader gaps(GapCodeFor(bound - count, bound), reader);
    for (uint64_t i = 0; i < bound - count; ++i) {
      const uint32_t missing = gaps.Read();
      // Room must be left for those that are still to come, and below it no more than there are.
      if (missing > count + i) return OutOfRange(missing, bound);
      for (; next < missing; ++next) ranks[filled++] = next;
      next = missing + 1;
    }
  }
  for (; next < bound; ++next) ranks[filled++] = next;
  return OkStatus();
}

}  // namespace pulse
