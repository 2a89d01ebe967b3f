// Ranks of words among the words of their class, and back: the scans behind codec "small".
//
// The class of a word is how far its exponent lies below `top`, clamped to 0 .. 15. The rank of a
// word is the number of words of its class before it, in the tiles that take part.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace pulse::kernels {

inline constexpr size_t kClasses = 16;
inline constexpr size_t kTileWords = 2048;  // 32 masks of 64 words: one vector of 16-bit prefixes

// Where a word keeps its exponent: (word >> exponent_shift) & exponent_mask. Mask 0: one class.
struct WordLayout {
  size_t word_bytes = 0;  // 1, 2, 4 or 8
  int exponent_shift = 0;
  uint32_t exponent_mask = 0;  // at most 0x7ff
};

struct ClassBlock {
  ByteView words;  // at most 2^20 of them, any alignment
  WordLayout layout;
  uint32_t top = 0;
  std::span<const uint8_t> active;  // one byte per tile, 0: takes no part; empty: all do
};

// Words per class.
using ClassCounts = std::array<uint32_t, kClasses>;

struct ClassScanBody {
  std::string_view name;
  ClassCounts (*count)(const ClassBlock& block);
  // positions: ascending, in active tiles. Writes class and rank of each; returns the counts.
  ClassCounts (*rank)(const ClassBlock& block, std::span<const uint32_t> positions,
                      uint8_t* classes, uint32_t* ranks);
  // entries: the ranks of class c at [begins[c], begins[c + 1]), ascending and below its count, c
  // ascending; each is replaced by its word's position.
  void (*select)(const ClassBlock& block, const std::array<uint32_t, kClasses + 1>& begins,
                 uint32_t* entries);
};

// The reference first, the fastest last.
std::span<const ClassScanBody> ClassScanBodies();

}  // namespace pulse::kernels
