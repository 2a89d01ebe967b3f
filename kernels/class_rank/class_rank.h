// Positions as ranks among the words of their class, and back.
//
// A change is frequent where a weight is small and rare where it is large. So codecs count
// positions among words of like magnitude, which writer and reader both see in the old words:
//
//   class of i   = clamp(top - exponent of word i, 0, 15)
//   rank of i    = |{ j < i : class of j = class of i }|
//
// Classes are kept as bit planes in tiles of 2,048 words, so that the words of a class are counted
// by population counts, 256 at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace pulse::kernels {

inline constexpr size_t kRankClasses = 16;
inline constexpr size_t kTileWords = 2048;
inline constexpr size_t kTileParts = 8;  // of 256 words

// By class, a number of words or of positions.
using ClassCounts = std::array<uint32_t, kRankClasses>;

// Bit i % 64 of planes[p * kTileGroups + i / 64] is bit p of the class of the tile's word i.
inline constexpr size_t kTileGroups = kTileWords / 64;
inline constexpr size_t kClassPlanes = 4;
struct alignas(64) ClassTile {
  std::array<uint64_t, kClassPlanes * kTileGroups> planes;
};

// Of the tile's words of class c: before[c][part], those in parts before that one; all[c].
struct alignas(16) TileCounts {
  std::array<std::array<uint16_t, kTileParts>, kRankClasses> before;
  std::array<uint16_t, kRankClasses> all;

  bool operator==(const TileCounts&) const = default;
};

constexpr size_t TilesOf(size_t words) {
  return (words + kTileWords - 1) / kTileWords;
}

// Where words keep their exponents: (word >> exponent_shift) & exponent_mask. Mask 0: one class.
struct WordLayout {
  size_t word_bytes = 0;  // 1, 2, 4 or 8
  int exponent_shift = 0;
  uint32_t exponent_mask = 0;  // below 2^11, and below 2^(8 word_bytes - exponent_shift)
};

inline constexpr WordLayout kFloatLayout = {4, 23, 0xff};

// Overwrites tiles and counts, TilesOf(words) of each, by the formula above. words: whole ones, at
// any alignment, at most 2^20. Behind the last one the planes are ones, and count for nothing.
// Returns the words' largest exponent, 0 of none: whoever guessed `top` sees whether it was that.
using ClassifyFn = uint32_t (*)(ByteView words, const WordLayout& layout, uint32_t top,
                                std::span<ClassTile> tiles, std::span<TileCounts> counts);

// positions: strictly ascending, of words. Writes the class and the rank of each (as many as there
// are positions). counts: as classified; where a tile's are all zeros, it has no part in the
// ranks, and no position lies in it.
using RankFn = void (*)(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                        std::span<const uint32_t> positions, uint8_t* classes, uint32_t* ranks);

// The inverse. ranks: those of class 0, strictly ascending and below the sum of its counts, then
// those of class 1, ...; entries[c] of class c. Writes the position of each, in the same order.
using SelectFn = void (*)(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                          const ClassCounts& entries, const uint32_t* ranks, uint32_t* positions);

struct ClassRankBody {
  std::string_view name;
  ClassifyFn classify;
  RankFn rank;
  SelectFn select;
};

// Every body gives the same output as the reference. The reference first, the fastest last.
std::span<const ClassRankBody> ClassRankBodies();

}  // namespace pulse::kernels
