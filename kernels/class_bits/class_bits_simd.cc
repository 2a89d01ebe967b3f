#define HWY_WANT_AVX3_DL  // for its population counts, of which GCC makes vectors
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/class_bits/class_bits_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "core/bytes.h"
#include "kernels/class_bits/class_bits_bodies.h"
#include "kernels/class_rank/class_rank_math.h"

#undef PULSE_HAS_BMI2
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_AVX3_ZEN4
#define PULSE_HAS_BMI2 1
#include <immintrin.h>
#else
#define PULSE_HAS_BMI2 0
#endif

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The lowest bits of `bits`, in order, to the places where `mask` has ones.
HWY_INLINE uint64_t SpreadBits(uint64_t bits, uint64_t mask) {
#if PULSE_HAS_BMI2
  return _pdep_u64(bits, mask);
#else
  uint64_t spread = 0;
  for (; bits != 0 && mask != 0; bits >>= 1, mask &= mask - 1) {
    if ((bits & 1) != 0) spread |= mask & (~mask + 1);
  }
  return spread;
#endif
}

// The inverse: the bits of `bits` at the ones of `mask`, in order.
HWY_INLINE uint64_t CollectBits(uint64_t bits, uint64_t mask) {
#if PULSE_HAS_BMI2
  return _pext_u64(bits, mask);
#else
  uint64_t collected = 0;
  for (bits &= mask; bits != 0; bits &= bits - 1) {
    const uint64_t below = (bits & (~bits + 1)) - 1;
    collected |= uint64_t{1} << std::popcount(mask & below);
  }
  return collected;
#endif
}

// Its place; anything up to 64 if there is none. Not std::countr_zero, which GCC gives a branch.
HWY_INLINE uint32_t LowestOne(uint64_t bits) {
#if PULSE_HAS_BMI2
  return static_cast<uint32_t>(_tzcnt_u64(bits));
#else
  return static_cast<uint32_t>(std::countr_zero(bits));
#endif
}

// The groups' members of class c. Returns a bit for each group that has some.
HWY_INLINE uint32_t FindMembers(const ClassTile& tile, size_t c, uint64_t* members) {
  const hn::CappedTag<uint64_t, kTileGroups> d;
  const auto differs = [&](size_t plane)
                           HWY_ATTR { return hn::Set(d, (c >> plane & 1) - uint64_t{1}); };
  const auto differs0 = differs(0), differs1 = differs(1);
  const auto differs2 = differs(2), differs3 = differs(3);
  const uint64_t* const planes = tile.planes.data();
  uint32_t occupied = 0;
  for (size_t g = 0; g < kTileGroups; g += hn::Lanes(d)) {
    const auto low = hn::And(hn::Xor(hn::Load(d, planes + g), differs0),
                             hn::Xor(hn::Load(d, planes + kTileGroups + g), differs1));
    const auto high = hn::And(hn::Xor(hn::Load(d, planes + 2 * kTileGroups + g), differs2),
                              hn::Xor(hn::Load(d, planes + 3 * kTileGroups + g), differs3));
    const auto found = hn::And(low, high);
    hn::Store(found, d, members + g);
    uint8_t some[8] = {};
    hn::StoreMaskBits(d, hn::Ne(found, hn::Zero(d)), some);
    occupied |= LoadLittle<uint32_t>(some) << g;
  }
  return occupied;
}

// A class's members in a tile. Where they are few, groups without any are passed over: more would
// cost more by the branches than they save.
struct Members {
  static constexpr size_t kFew = 16;

  HWY_INLINE Members(const ClassTile& tile, const TileCounts& counts, size_t c)
      : count(counts.all[c]), occupied(FindMembers(tile, c, groups)) {}

  // Calls group(g, the group's members, how many they are), ascending.
  template <typename Group>
  HWY_INLINE void ForEachGroup(Group group) const {
    if (count <= kFew) {
      for (uint32_t left = occupied; left != 0; left &= left - 1) {
        const auto g = static_cast<size_t>(std::countr_zero(left));
        group(g, groups[g], static_cast<size_t>(std::popcount(groups[g])));
      }
      return;
    }
    for (size_t g = 0; g < kTileGroups; ++g) {
      group(g, groups[g], static_cast<size_t>(std::popcount(groups[g])));
    }
  }

  alignas(64) uint64_t groups[kTileGroups];
  size_t count;  // of the block's words: behind the last one there may be more in `groups`
  uint32_t occupied;
};
// Classes with at most so many members in a tile have their bits in one word, of which no group
// takes all 64. Not so in the last tile, where there are more behind the last word.
constexpr size_t kOneWord = 63;

// 64 bits from bit `at` on.
HWY_INLINE uint64_t BitsFrom(const uint64_t* bits, size_t at) {
  const uint64_t* const word = bits + at / 64;
  return word[0] >> at % 64 | word[1] << 1 << (63 - at % 64);
}

// The same, but only the first 57 count. (Words are stored lowest byte first: core/bytes.h.)
constexpr size_t kFewBits = 57;
HWY_INLINE uint64_t FewBitsFrom(const uint64_t* bits, size_t at) {
  return LoadLittle<uint64_t>(reinterpret_cast<const uint8_t*>(bits) + at / 8) >> at % 8;
}

// What was put from bit `at` on begins its last word; the rest of that word is zero.
HWY_INLINE void PutBits(uint64_t* bits, size_t at, uint64_t added) {
  bits[at / 64] |= added << at % 64;
  bits[at / 64 + 1] = added >> 1 >> (63 - at % 64);
}

HWY_INLINE bool AnyIn(const uint64_t* bits, size_t begin, size_t end) {
  uint64_t any = bits[begin / 64] >> begin % 64 << begin % 64;
  for (size_t i = begin / 64 + 1; 64 * i < end; ++i) any |= bits[i];
  return any != 0;
}

void SplitByClass(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                  const uint64_t* chosen, const ClassBits& of_class) {
  ClassCounts next = {};
  for (size_t c = 0; c < kRankClasses; ++c) of_class[c][0] = 0;
  for (size_t t = 0; t < tiles.size(); ++t, chosen += kTileGroups) {
    for (size_t c = 0; c < kRankClasses; ++c) {
      if (counts[t].all[c] == 0) continue;
      const Members members(tiles[t], counts[t], c);
      if (members.count <= kOneWord && t + 1 < tiles.size()) {
        uint64_t word = 0;
        size_t at = 0;
        members.ForEachGroup([&](size_t g, uint64_t group, size_t count) HWY_ATTR {
          word |= CollectBits(chosen[g], group) << at;
          at += count;
        });
        PutBits(of_class[c], next[c], word);
      } else {
        size_t at = next[c];
        members.ForEachGroup([&](size_t g, uint64_t group, size_t count) HWY_ATTR {
          PutBits(of_class[c], at, CollectBits(chosen[g], group));
          at += count;
        });
      }
      next[c] += counts[t].all[c];
    }
  }
}

void JoinClasses(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                 const ClassBits& of_class, uint64_t* chosen) {
  ClassCounts next = {};
  for (size_t t = 0; t < tiles.size(); ++t, chosen += kTileGroups) {
    std::fill_n(chosen, kTileGroups, 0);
    for (size_t c = 0; c < kRankClasses; ++c) {
      const uint64_t* const bits = of_class[c];
      size_t at = next[c];
      next[c] += counts[t].all[c];
      if (at == next[c] || !AnyIn(bits, at, next[c])) continue;
      const Members members(tiles[t], counts[t], c);
      if (members.count <= kOneWord && t + 1 < tiles.size()) {
        uint64_t word = BitsFrom(bits, at);
        members.ForEachGroup([&](size_t g, uint64_t group, size_t count) HWY_ATTR {
          chosen[g] |= SpreadBits(word, group);
          word >>= count;
        });
      } else {
        members.ForEachGroup([&](size_t g, uint64_t group, size_t count) HWY_ATTR {
          const uint64_t word = count <= kFewBits ? FewBitsFrom(bits, at) : BitsFrom(bits, at);
          chosen[g] |= SpreadBits(word, group);
          at += count;
        });
      }
    }
  }
}

size_t ListOnes(std::span<const uint64_t> words, uint32_t* ones) {
  // So many of a word are written whether it has them or not: how many it has is hard to predict.
  constexpr size_t kAlways = 8;
  size_t count = 0;
  for (size_t w = 0; w < words.size(); ++w) {
    uint64_t bits = words[w];
    const auto first = static_cast<uint32_t>(64 * w);
    const auto here = static_cast<size_t>(std::popcount(bits));
    uint32_t* at = ones + count;
    for (size_t i = 0; i < kAlways; ++i, bits &= bits - 1) at[i] = first + LowestOne(bits);
    for (size_t i = kAlways; i < here; ++i, bits &= bits - 1) at[i] = first + LowestOne(bits);
    count += here;
  }
  return count;
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(SplitByClass);
HWY_EXPORT(JoinClasses);
HWY_EXPORT(ListOnes);

void SplitByClassSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                      const uint64_t* chosen, const ClassBits& of_class) {
  HWY_DYNAMIC_DISPATCH(SplitByClass)(tiles, counts, chosen, of_class);
}

void JoinClassesSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                     const ClassBits& of_class, uint64_t* chosen) {
  HWY_DYNAMIC_DISPATCH(JoinClasses)(tiles, counts, of_class, chosen);
}

size_t ListOnesSimd(std::span<const uint64_t> words, uint32_t* ones) {
  return HWY_DYNAMIC_DISPATCH(ListOnes)(words, ones);
}

}  // namespace pulse::kernels
#endif
