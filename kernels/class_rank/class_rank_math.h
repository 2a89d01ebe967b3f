// The class of one word, from the word and from a tile; and how many words there are of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/class_rank/class_rank.h"

namespace pulse::kernels {

template <typename Word>
uint32_t ExponentOf(Word word, const WordLayout& layout) {
  return static_cast<uint32_t>(word >> layout.exponent_shift) & layout.exponent_mask;
}

template <typename Word>
uint8_t ClassOf(Word word, const WordLayout& layout, uint32_t top) {
  const uint32_t below = top - std::min(ExponentOf(word, layout), top);
  return static_cast<uint8_t>(std::min<uint32_t>(below, uint32_t{kRankClasses - 1}));
}

// The class of word i of a tile.
inline uint8_t ClassAt(const ClassTile& tile, size_t i) {
  const uint64_t* const planes = tile.planes.data() + i / 64;
  uint64_t c = 0;
  for (size_t p = 0; p < kClassPlanes; ++p) {
    c |= (planes[p * kTileGroups] >> i % 64 & 1) << p;
  }
  return static_cast<uint8_t>(c);
}

// The words of each class, in all tiles.
inline ClassCounts SumOfCounts(std::span<const TileCounts> counts) {
  ClassCounts sum = {};
  for (const TileCounts& of_tile : counts) {
    for (size_t c = 0; c < kRankClasses; ++c) sum[c] += of_tile.all[c];
  }
  return sum;
}

}  // namespace pulse::kernels
