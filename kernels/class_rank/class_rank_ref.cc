#include <algorithm>
#include <bit>

#include "kernels/class_rank/class_rank_bodies.h"
#include "kernels/class_rank/class_rank_math.h"

namespace pulse::kernels {
namespace {

constexpr size_t kPartWords = kTileWords / kTileParts;

template <typename Word>
uint32_t ClassifyAll(ByteView words, const WordLayout& layout, uint32_t top,
                     std::span<ClassTile> tiles, std::span<TileCounts> counts) {
  const size_t n = words.size() / sizeof(Word);
  uint32_t largest = 0;
  for (size_t t = 0; t < tiles.size(); ++t) {
    tiles[t] = {};
    counts[t] = {};
    for (size_t i = 0; i < kTileWords; ++i) {
      const size_t at = t * kTileWords + i;
      uint8_t c = kRankClasses - 1;
      if (at < n) {
        const auto word = LoadLittle<Word>(words.data() + at * sizeof(Word));
        largest = std::max(largest, ExponentOf(word, layout));
        c = ClassOf(word, layout, top);
        ++counts[t].all[c];
        for (size_t part = i / kPartWords + 1; part < kTileParts; ++part) {
          ++counts[t].before[c][part];
        }
      }
      for (size_t p = 0; p < kClassPlanes; ++p) {
        tiles[t].planes[p * kTileGroups + i / 64] |= uint64_t{c >> p & 1u} << i % 64;
      }
    }
  }
  return largest;
}

// Calls word(position, class, rank) for every word of the tiles that have counts.
template <typename Word>
void ForEachWord(std::span<const ClassTile> tiles, std::span<const TileCounts> counts, Word word) {
  ClassCounts before = {};
  for (size_t t = 0; t < tiles.size(); ++t) {
    const auto& of_tile = counts[t].all;
    ClassCounts in_tile = {};
    for (size_t i = 0; i < kTileWords; ++i) {
      const uint8_t c = ClassAt(tiles[t], i);
      if (in_tile[c] == of_tile[c]) continue;  // no part in the ranks, or behind the last word
      word(static_cast<uint32_t>(t * kTileWords + i), c, before[c] + in_tile[c]);
      ++in_tile[c];
    }
    for (size_t c = 0; c < kRankClasses; ++c) before[c] += of_tile[c];
  }
}

}  // namespace

uint32_t ClassifyRef(ByteView words, const WordLayout& layout, uint32_t top,
                     std::span<ClassTile> tiles, std::span<TileCounts> counts) {
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
}

void RankRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
             std::span<const uint32_t> positions, uint8_t* classes, uint32_t* ranks) {
  size_t entry = 0;
  ForEachWord(tiles, counts, [&](uint32_t position, uint8_t c, uint32_t rank) {
    if (entry == positions.size() || positions[entry] != position) return;
    classes[entry] = c;
    ranks[entry++] = rank;
  });
}

void SelectRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
               const ClassCounts& entries, const uint32_t* ranks, uint32_t* positions) {
  ClassCounts next = {}, end = {};
  uint32_t begin = 0;
  for (size_t c = 0; c < kRankClasses; ++c) {
    next[c] = begin;
    begin += entries[c];
    end[c] = begin;
  }
  ForEachWord(tiles, counts, [&](uint32_t position, uint8_t c, uint32_t rank) {
    if (next[c] != end[c] && ranks[next[c]] == rank) positions[next[c]++] = position;
  });
}

}  // namespace pulse::kernels
