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

// The groups' members of class c.
HWY_INLINE void FindMembers(const ClassTile& tile, size_t c, uint64_t* members) {
  const hn::CappedTag<uint64_t, kTileGroups> d;
  const auto differs = [&](size_t plane)
                           HWY_ATTR { return hn::Set(d, (c >> plane & 1) - uint64_t{1}); };
  const auto differs0 = differs(0), differs1 = differs(1);
  const auto differs2 = differs(2), differs3 = differs(3);
  const uint64_t* const planes = tile.planes.data();
  for (size_t g = 0; g < kTileGroups; g += hn::Lanes(d)) {
    const auto low = hn::And(hn::Xor(hn::Load(d, planes + g), differs0),
                             hn::Xor(hn::Load(d, planes + kTileGroups + g), differs1));
    const auto high = hn::And(hn::Xor(hn::Load(d, planes + 2 * kTileGroups + g), differs2),
                              hn::Xor(hn::Load(d, planes + 3 * kTileGroups + g), differs3));
    hn::Store(hn::And(low, high), d, members + g);
  }
}

// 64 bits from bit `at` on.
HWY_INLINE uint64_t BitsFrom(const uint64_t* bits, size_t at) {
  const uint64_t* const word = bits + at / 64;
  return word[0] >> at % 64 | word[1] << 1 << (63 - at % 64);
}

// The same, but only the first 57 count. (Words are stored lowest byte first: core/bytes.h.)
HWY_INLINE uint64_t FewBitsFrom(const uint64_t* bits, size_t at) {
  return LoadLittle<uint64_t>(reinterpret_cast<const uint8_t*>(bits) + at / 8) >> at % 8;
}
constexpr size_t kFewBits = 57;

// count: up to 64.
HWY_INLINE uint64_t DropBits(uint64_t bits, size_t count) {
  return bits >> (count / 2) >> (count - count / 2);
}

HWY_INLINE bool AnyIn(const uint64_t* bits, size_t begin, size_t end) {
  uint64_t any = bits[begin / 64] >> begin % 64 << begin % 64;
  for (size_t i = begin / 64 + 1; 64 * i < end; ++i) any |= bits[i];
  return any != 0;
}

void SplitByClass(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                  const uint64_t* chosen, const ClassBits& of_class) {
  alignas(64) uint64_t members[kTileGroups];
  ClassCounts next = {};
  for (size_t c = 0; c < kRankClasses; ++c) of_class[c][0] = 0;
  for (size_t t = 0; t < tiles.size(); ++t, chosen += kTileGroups) {
    for (size_t c = 0; c < kRankClasses; ++c) {
      if (counts[t].all[c] == 0) continue;
      FindMembers(tiles[t], c, members);
      uint64_t* const bits = of_class[c];
      size_t at = next[c];
      for (size_t g = 0; g < kTileGroups; ++g) {
        const uint64_t collected = CollectBits(chosen[g], members[g]);
        bits[at / 64] |= collected << at % 64;
        bits[at / 64 + 1] = collected >> 1 >> (63 - at % 64);
        at += static_cast<size_t>(std::popcount(members[g]));
      }
      next[c] += counts[t].all[c];
    }
  }
}

// The members of a class that has at most 64 in the tile.
HWY_INLINE void SpreadFew(uint64_t bits, const uint64_t* members, uint64_t* chosen) {
  for (size_t g = 0; g < kTileGroups; ++g) {
    chosen[g] |= SpreadBits(bits, members[g]);
    bits = DropBits(bits, static_cast<size_t>(std::popcount(members[g])));
  }
}

HWY_INLINE void SpreadMany(const uint64_t* bits, size_t at, const uint64_t* members,
                           uint64_t* chosen) {
  for (size_t g = 0; g < kTileGroups; ++g) {
    const auto count = static_cast<size_t>(std::popcount(members[g]));
    const uint64_t from = count <= kFewBits ? FewBitsFrom(bits, at) : BitsFrom(bits, at);
    chosen[g] |= SpreadBits(from, members[g]);
    at += count;
  }
}

void JoinClasses(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                 const ClassBits& of_class, uint64_t* chosen) {
  alignas(64) uint64_t members[kTileGroups];
  ClassCounts next = {};
  for (size_t t = 0; t < tiles.size(); ++t, chosen += kTileGroups) {
    std::fill_n(chosen, kTileGroups, 0);
    for (size_t c = 0; c < kRankClasses; ++c) {
      const size_t begin = next[c];
      next[c] += counts[t].all[c];
      if (begin == next[c] || !AnyIn(of_class[c], begin, next[c])) continue;
      FindMembers(tiles[t], c, members);
      if (counts[t].all[c] <= 64) {
        SpreadFew(BitsFrom(of_class[c], begin), members, chosen);
      } else {
        SpreadMany(of_class[c], begin, members, chosen);
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
    for (size_t i = 0; i < kAlways; ++i, bits &= bits - 1) {
      at[i] = first + static_cast<uint32_t>(std::countr_zero(bits));
    }
    for (size_t i = kAlways; i < here; ++i, bits &= bits - 1) {
      at[i] = first + static_cast<uint32_t>(std::countr_zero(bits));
    }
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
