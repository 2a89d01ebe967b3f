#define HWY_WANT_AVX3_DL  // for its population counts
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/class_rank/class_rank_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/arithmetic/prefetch.h"
#include "kernels/class_rank/class_rank_bodies.h"
#include "kernels/class_rank/class_rank_math.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_AVX3_ZEN4
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr uint64_t kOne = 1;
// A group is 64 words, one bit each.
constexpr size_t kGroups = kTileGroups;
constexpr size_t kPlanes = kClassPlanes;

#if HWY_TARGET != HWY_SCALAR  // without vectors there is nothing to gain: the reference serves

// There is no shift of bytes: pairs of them are shifted, and the mask drops what the upper one let
// fall into the lower one.
template <class D>
HWY_INLINE hn::Vec<D> ShiftWords(D d, hn::Vec<D> words, int bits) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::Repartition<uint16_t, D> pairs;
    return hn::BitCast(d, hn::ShiftRightSame(hn::BitCast(pairs, words), bits));
  } else {
    return hn::ShiftRightSame(words, bits);
  }
}

// a - b, at least 0.
template <class V>
HWY_INLINE V Below(V a, V b) {
  if constexpr (sizeof(hn::TFromV<V>) <= 2) {
    return hn::SaturatedSub(a, b);
  } else {
    return hn::Sub(a, hn::Min(a, b));
  }
}

template <class D>
HWY_INLINE uint32_t LargestLane(D d, hn::Vec<D> lanes) {
  alignas(64) hn::TFromD<D> each[hn::MaxLanes(d)];
  hn::Store(lanes, d, each);
  return static_cast<uint32_t>(*std::max_element(each, each + hn::Lanes(d)));
}

// The classes of at most kTileWords words, one byte each. Returns their largest exponent.
template <typename Word>
HWY_INLINE uint32_t ClassifyWords(ByteView words, const WordLayout& layout, uint32_t top,
                                  uint8_t* classes) {
  const hn::ScalableTag<Word> d;
  const hn::ScalableTag<uint8_t> bytes;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const size_t n = words.size() / sizeof(Word);
  const auto mask = hn::Set(d, static_cast<Word>(layout.exponent_mask));
  const auto from = hn::Set(d, static_cast<Word>(top));
  const auto last = hn::Set(d, Word{kRankClasses - 1});
  auto largest_lanes = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    PrefetchAhead(words.data() + i * sizeof(Word));
    const auto word = hn::BitCast(d, hn::LoadU(bytes, words.data() + i * sizeof(Word)));
    const auto exponent = hn::And(ShiftWords(d, word, layout.exponent_shift), mask);
    largest_lanes = hn::Max(largest_lanes, exponent);
    const auto of_lane = hn::Min(Below(from, exponent), last);
    if constexpr (sizeof(Word) == 1) {
      hn::StoreU(of_lane, d, classes + i);
    } else if constexpr (sizeof(Word) == 4) {
      // Not TruncateTo, which takes other lanes on AVX3_DL in Highway 1.0.3.
      const hn::Repartition<int32_t, decltype(d)> d_signed;
      hn::StoreU(hn::DemoteTo(d8, hn::BitCast(d_signed, of_lane)), d8, classes + i);
    } else {
      hn::StoreU(hn::TruncateTo(d8, of_lane), d8, classes + i);
    }
  }
  uint32_t largest = LargestLane(d, largest_lanes);
  for (; i < n; ++i) {
    const auto word = LoadLittle<Word>(words.data() + i * sizeof(Word));
    classes[i] = ClassOf(word, layout, top);
    largest = std::max(largest, ExponentOf(word, layout));
  }
  return largest;
}

HWY_INLINE void SplitIntoPlanes(const uint8_t* classes, ClassTile& tile) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < kTileWords; i += lanes) {
    const auto of_lane = hn::Load(d, classes + i);
    for (size_t p = 0; p < kPlanes; ++p) {
      const auto bit = hn::TestBit(of_lane, hn::Set(d, static_cast<uint8_t>(1u << p)));
      hn::StoreMaskBits(d, bit, reinterpret_cast<uint8_t*>(&tile.planes[p * kGroups]) + i / 8);
    }
  }
}

// A part of a tile is four groups: no wider vectors, so that sums over one are short.
constexpr size_t kPartGroups = kGroups / kTileParts;
using D64 = hn::CappedTag<uint64_t, kPartGroups>;
using Bits = hn::Vec<D64>;

// Four 16-bit numbers in one word. A product with kOnes adds up the lanes up to each.
constexpr uint64_t kOnes = 0x0001000100010001;
constexpr int kLaneBits = 16;
alignas(32) constexpr uint64_t kLaneShifts[kPartGroups] = {0, 16, 32, 48};

// Of plane p, the bits that are those of class c.
HWY_INLINE Bits LikeClass(Bits plane, size_t c, size_t p) {
  return (c >> p & 1) != 0 ? plane : hn::Not(plane);
}

// The words of each class in four parts from `part` on, in 16 bits each.
HWY_INLINE void CountFourParts(const ClassTile& tile, size_t part, uint64_t* of_class) {
  const D64 d;
  Bits sums[kRankClasses];
  for (Bits& sum : sums) sum = hn::Zero(d);
  for (int i = 0; i < 4; ++i) {
    for (size_t lane = 0; lane < kPartGroups; lane += hn::Lanes(d)) {
      const size_t g = (part + static_cast<size_t>(i)) * kPartGroups + lane;
      Bits plane[kPlanes];
      for (size_t p = 0; p < kPlanes; ++p) plane[p] = hn::Load(d, &tile.planes[p * kGroups + g]);
      Bits low[4], high[4];
      for (size_t c = 0; c < 4; ++c) {
        low[c] = hn::And(LikeClass(plane[0], c, 0), LikeClass(plane[1], c, 1));
        high[c] = hn::And(LikeClass(plane[2], c, 0), LikeClass(plane[3], c, 1));
      }
      for (size_t c = 0; c < kRankClasses; ++c) {
        const Bits found = hn::PopulationCount(hn::And(low[c % 4], high[c / 4]));
        sums[c] = hn::Add(sums[c], hn::ShiftLeftSame(found, kLaneBits * i));
      }
    }
  }
  for (size_t c = 0; c < kRankClasses; ++c) {
    of_class[c] = hn::GetLane(hn::SumOfLanes(d, sums[c]));
  }
}

// Counts all words of the tile, those behind the last one included.
HWY_INLINE void CountClasses(const ClassTile& tile, TileCounts& counts) {
  uint64_t first[kRankClasses], second[kRankClasses];
  CountFourParts(tile, 0, first);
  CountFourParts(tile, kTileParts / 2, second);
  for (size_t c = 0; c < kRankClasses; ++c) {
    const uint64_t behind = first[c] * kOnes;
    const uint64_t half = behind >> 3 * kLaneBits;
    const uint64_t behind_second = (second[c] + half) * kOnes;
    const uint64_t before[2] = {behind << kLaneBits, (behind_second << kLaneBits) + half};
    std::memcpy(counts.before[c].data(), before, sizeof(before));
    counts.all[c] = static_cast<uint16_t>(behind_second >> 3 * kLaneBits);
  }
}

// Takes the words behind the last one, which are of the last class, out of the counts.
HWY_INLINE void Uncount(size_t missing, TileCounts& counts) {
  counts.all.back() = static_cast<uint16_t>(counts.all.back() - missing);
  for (uint16_t& before : counts.before.back()) before = std::min(before, counts.all.back());
}

template <typename Word>
uint32_t ClassifyAll(ByteView words, const WordLayout& layout, uint32_t top,
                     std::span<ClassTile> tiles, std::span<TileCounts> counts) {
  constexpr size_t kTileBytes = kTileWords * sizeof(Word);
  alignas(64) uint8_t classes[kTileWords];
  uint32_t largest = 0;
  for (size_t t = 0; t < tiles.size(); ++t) {
    const ByteView of_tile =
        words.subspan(t * kTileBytes, std::min(kTileBytes, words.size() - t * kTileBytes));
    largest = std::max(largest, ClassifyWords<Word>(of_tile, layout, top, classes));
    const size_t missing = kTileWords - of_tile.size() / sizeof(Word);
    std::memset(classes + kTileWords - missing, kRankClasses - 1, missing);
    SplitIntoPlanes(classes, tiles[t]);
    CountClasses(tiles[t], counts[t]);
    if (missing > 0) Uncount(missing, counts[t]);
  }
  return largest;
}

// Masks that are loaded, not made: the loops below wait for instructions, not for memory.
struct Masks {
  // By class and plane: ones where the class's bit is 0.
  uint64_t differs[kRankClasses][kPlanes];
  // By group g of a part: the groups before it; and itself.
  alignas(32) uint64_t before[kPartGroups][kPartGroups];
  alignas(32) uint64_t itself[kPartGroups][kPartGroups];
  uint64_t below[64];  // by bit
};
constexpr Masks MakeMasks() {
  Masks masks = {};
  for (size_t c = 0; c < kRankClasses; ++c) {
    for (size_t p = 0; p < kPlanes; ++p) masks.differs[c][p] = (c >> p & 1) - kOne;
  }
  for (size_t g = 0; g < kPartGroups; ++g) {
    for (size_t i = 0; i < g; ++i) masks.before[g][i] = ~uint64_t{0};
    masks.itself[g][g] = ~uint64_t{0};
  }
  for (size_t i = 0; i < 64; ++i) masks.below[i] = (kOne << i) - 1;
  return masks;
}
constexpr Masks kMasks = MakeMasks();

// The members of class c in the groups [g, g + lanes) of the tile.
HWY_INLINE Bits MembersOf(const ClassTile& tile, size_t c, size_t g) {
  const D64 d;
  const uint64_t* const planes = tile.planes.data() + g;
  const auto like = [&](size_t p) HWY_ATTR {
    return hn::Xor(hn::Load(d, planes + p * kGroups), hn::Set(d, kMasks.differs[c][p]));
  };
  return hn::And(hn::And(like(0), like(1)), hn::And(like(2), like(3)));
}

// How many members its part has before word i of the tile.
HWY_INLINE uint32_t RankInPart(const ClassTile& tile, size_t c, size_t i) {
  const D64 d;
  const size_t first = i / 64 / kPartGroups * kPartGroups;
  const size_t group = i / 64 % kPartGroups;
  const Bits below = hn::Set(d, kMasks.below[i % 64]);
  Bits sum = hn::Zero(d);
  for (size_t g = 0; g < kPartGroups; g += hn::Lanes(d)) {
    const Bits window = hn::OrAnd(hn::Load(d, kMasks.before[group] + g),
                                  hn::Load(d, kMasks.itself[group] + g), below);
    const Bits found = hn::And(MembersOf(tile, c, first + g), window);
    sum = hn::Add(sum, hn::PopulationCount(found));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

// Where the bit number `rank` of `bits` lies; there are more than `rank`.
HWY_INLINE uint32_t SelectBit(uint64_t bits, uint32_t rank) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_AVX3_ZEN4
  return static_cast<uint32_t>(std::countr_zero(_pdep_u64(kOne << rank, bits)));
#else
  for (; rank > 0; --rank) bits &= bits - 1;
  return static_cast<uint32_t>(std::countr_zero(bits));
#endif
}

// The word of the tile that has `rank` members before it; there is one. before: of its class.
HWY_INLINE uint32_t SelectInTile(const ClassTile& tile, size_t c,
                                 const std::array<uint16_t, kTileParts>& before, uint32_t rank) {
  const D64 d;
  const hn::FixedTag<int16_t, kTileParts> parts;
  constexpr uint64_t kHighs = kOnes << (kLaneBits - 1);
  const auto begins = hn::Load(parts, reinterpret_cast<const int16_t*>(before.data()));
  const auto behind_rank = hn::Set(parts, static_cast<int16_t>(rank + 1));
  const size_t part = hn::CountTrue(parts, hn::Lt(begins, behind_rank)) - 1;
  rank -= before[part];

  alignas(32) uint64_t members[kPartGroups];
  uint64_t four = 0;  // counts
  for (size_t g = 0; g < kPartGroups; g += hn::Lanes(d)) {
    const Bits found = MembersOf(tile, c, part * kPartGroups + g);
    hn::Store(found, d, members + g);
    const Bits counts = hn::Shl(hn::PopulationCount(found), hn::Load(d, kLaneShifts + g));
    four |= hn::GetLane(hn::SumOfLanes(d, counts));
  }
  const uint64_t behind = four * kOnes;  // members up to the end of each group
  // Where that is at most `rank`, the difference keeps the high bit of its lane.
  const uint64_t not_behind = ((rank * kOnes | kHighs) - behind) & kHighs;
  const auto g = static_cast<size_t>(std::popcount(not_behind));
  const auto before_group = static_cast<uint16_t>(behind << kLaneBits >> kLaneBits * g);
  return static_cast<uint32_t>(64 * (part * kPartGroups + g)) +
         SelectBit(members[g], rank - before_group);
}

#endif  // HWY_TARGET != HWY_SCALAR

uint32_t Classify(ByteView words, const WordLayout& layout, uint32_t top,
                  std::span<ClassTile> tiles, std::span<TileCounts> counts) {
#if HWY_TARGET == HWY_SCALAR
  return ClassifyRef(words, layout, top, tiles, counts);
#else
  switch (layout.word_bytes) {
    case 1:
      return ClassifyAll<uint8_t>(words, layout, top, tiles, counts);
    case 2:
      return ClassifyAll<uint16_t>(words, layout, top, tiles, counts);
    case 4:
      return ClassifyAll<uint32_t>(words, layout, top, tiles, counts);
    default:
      return ClassifyAll<uint64_t>(words, layout, top, tiles, counts);
  }
#endif
}

void Rank(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
          std::span<const uint32_t> positions, uint8_t* classes, uint32_t* ranks) {
#if HWY_TARGET == HWY_SCALAR
  RankRef(tiles, counts, positions, classes, ranks);
#else
  ClassCounts before = {};
  size_t entry = 0;
  for (size_t t = 0; t < tiles.size(); ++t) {
    const auto first = static_cast<uint32_t>(t * kTileWords);
    for (; entry < positions.size() && positions[entry] < first + kTileWords; ++entry) {
      const size_t i = positions[entry] - first;
      const uint8_t c = ClassAt(tiles[t], i);
      classes[entry] = c;
      ranks[entry] =
          before[c] + counts[t].before[c][i / 64 / kPartGroups] + RankInPart(tiles[t], c, i);
    }
    for (size_t c = 0; c < kRankClasses; ++c) before[c] += counts[t].all[c];
  }
#endif
}

void Select(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
            const ClassCounts& entries, const uint32_t* ranks, uint32_t* positions) {
#if HWY_TARGET == HWY_SCALAR
  SelectRef(tiles, counts, entries, ranks, positions);
#else
  constexpr uint32_t kNone = UINT32_MAX;  // no rank is so large
  ClassCounts next = {}, end = {}, upcoming = {}, before = {};
  uint32_t begin = 0;
  for (size_t c = 0; c < kRankClasses; ++c) {
    next[c] = begin;
    begin += entries[c];
    end[c] = begin;
    upcoming[c] = next[c] < end[c] ? ranks[next[c]] : kNone;
  }
  for (size_t t = 0; t < tiles.size(); ++t) {
    ClassCounts behind;
    uint32_t present = 0;
    for (size_t c = 0; c < kRankClasses; ++c) {
      behind[c] = before[c] + counts[t].all[c];
      present |= uint32_t{upcoming[c] < behind[c]} << c;
    }
    for (; present != 0; present &= present - 1) {
      const auto c = static_cast<size_t>(std::countr_zero(present));
      uint32_t i = next[c];
      for (; i < end[c] && ranks[i] < behind[c]; ++i) {
        positions[i] = static_cast<uint32_t>(t * kTileWords) +
                       SelectInTile(tiles[t], c, counts[t].before[c], ranks[i] - before[c]);
      }
      next[c] = i;
      upcoming[c] = i < end[c] ? ranks[i] : kNone;
    }
    before = behind;
  }
#endif
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(Classify);
HWY_EXPORT(Rank);
HWY_EXPORT(Select);

uint32_t ClassifySimd(ByteView words, const WordLayout& layout, uint32_t top,
                      std::span<ClassTile> tiles, std::span<TileCounts> counts) {
  return HWY_DYNAMIC_DISPATCH(Classify)(words, layout, top, tiles, counts);
}

void RankSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
              std::span<const uint32_t> positions, uint8_t* classes, uint32_t* ranks) {
  HWY_DYNAMIC_DISPATCH(Rank)(tiles, counts, positions, classes, ranks);
}

void SelectSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                const ClassCounts& entries, const uint32_t* ranks, uint32_t* positions) {
  HWY_DYNAMIC_DISPATCH(Select)(tiles, counts, entries, ranks, positions);
}

}  // namespace pulse::kernels
#endif
