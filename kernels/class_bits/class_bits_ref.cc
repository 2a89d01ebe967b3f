#include <algorithm>

#include "kernels/class_bits/class_bits_bodies.h"
#include "kernels/class_rank/class_rank_math.h"

namespace pulse::kernels {
namespace {

// Calls word(position, class, rank) for every word of the block.
template <typename Word>
void ForEachWord(std::span<const ClassTile> tiles, std::span<const TileCounts> counts, Word word) {
  ClassCounts next = {};
  for (size_t t = 0; t < tiles.size(); ++t) {
    ClassCounts left = {};
    std::copy(counts[t].all.begin(), counts[t].all.end(), left.begin());
    for (size_t i = 0; i < kTileWords; ++i) {
      const uint8_t c = ClassAt(tiles[t], i);
      if (left[c] == 0) continue;  // behind the last word
      --left[c];
      word(t * kTileWords + i, c, next[c]++);
    }
  }
}

uint64_t BitAt(const uint64_t* bits, size_t i) {
  return bits[i / 64] >> i % 64 & 1;
}

}  // namespace

void SplitByClassRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                     const uint64_t* chosen, const ClassBits& of_class) {
  const ClassCounts sizes = SumOfCounts(counts);
  for (size_t c = 0; c < kRankClasses; ++c) {
    std::fill_n(of_class[c], ClassBitsLength(sizes[c]), 0);
  }
  ForEachWord(tiles, counts, [&](size_t position, uint8_t c, size_t rank) {
    of_class[c][rank / 64] |= BitAt(chosen, position) << rank % 64;
  });
}

void JoinClassesRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                    const ClassBits& of_class, uint64_t* chosen) {
  std::fill_n(chosen, tiles.size() * kTileGroups, 0);
  ForEachWord(tiles, counts, [&](size_t position, uint8_t c, size_t rank) {
    chosen[position / 64] |= BitAt(of_class[c], rank) << position % 64;
  });
}

size_t ListOnesRef(std::span<const uint64_t> words, uint32_t* ones) {
  size_t count = 0;
  for (size_t i = 0; i < 64 * words.size(); ++i) {
    if (BitAt(words.data(), i) != 0) ones[count++] = static_cast<uint32_t>(i);
  }
  return count;
}

}  // namespace pulse::kernels
