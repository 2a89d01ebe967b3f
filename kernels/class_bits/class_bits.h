// A subset of a block's words, as bits by position and as bits by class and rank (class_rank.h):
//
//   chosen: bit i % 64 of chosen[i / 64] is word i
//   of_class: bit r % 64 of of_class[c][r / 64] is the word of class c that has rank r
//
// Where every word has a bit there is no list of entries to be sorted: whole tiles pass at the
// speed of their words, however many of them are chosen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/class_rank/class_rank.h"

namespace pulse::kernels {

// By class, where its bits begin.
using ClassBits = std::array<uint64_t*, kRankClasses>;

// The 64-bit words that the bits of `size` words of a class need, with what lies behind them: both
// functions look at a tile's groups in whole words.
constexpr size_t ClassBitsLength(size_t size) {
  return size / 64 + kTileGroups + 2;
}

// tiles, counts: as classified, all of the block's. chosen: kTileGroups words a tile; no bit behind
// the last word of the block. Overwrites of_class, ClassBitsLength of each class's words; what is
// behind the class's last word is unspecified, but zero in the word that holds it.
using SplitByClassFn = void (*)(std::span<const ClassTile> tiles,
                                std::span<const TileCounts> counts, const uint64_t* chosen,
                                const ClassBits& of_class);

// The inverse. of_class: ClassBitsLength of each class's words, zero behind the last one.
// Overwrites `chosen`.
using JoinClassesFn = void (*)(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                               const ClassBits& of_class, uint64_t* chosen);

// The places of the ones among the bits of `words`, ascending; returns how many there are. ones:
// room for kListSlack more than that, which may be overwritten.
inline constexpr size_t kListSlack = 64;
using ListOnesFn = size_t (*)(std::span<const uint64_t> words, uint32_t* ones);

struct ClassBitsBody {
  std::string_view name;
  SplitByClassFn split;
  JoinClassesFn join;
  ListOnesFn list;
};

// Every body gives the same output as the reference. The reference first, the fastest last.
std::span<const ClassBitsBody> ClassBitsBodies();

}  // namespace pulse::kernels
