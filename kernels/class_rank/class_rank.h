// Positions as ranks among the elements of their class, and back.
//
// A sparse update's entries are frequent where theta is small and rare where it is large. So its
// codec counts positions among elements of like magnitude, which every trainer sees in theta:
//
//   class of i   = min(largest exponent field in theta - exponent field of theta_i, 15)
//   rank of i    = |{ j < i : class of j = class of i }|
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace pulse::kernels {

inline constexpr size_t kRankClasses = 16;

// By class, a number of elements or of positions.
using ClassCounts = std::array<uint32_t, kRankClasses>;

// Overwrites classes (as long as theta, at most 2^20) by the formula above. Any bits: NaN and
// infinity have the largest exponent field there is, zeros and denormals the smallest.
using ClassifyFn = void (*)(std::span<const float> theta, std::span<uint8_t> classes);

// Where words keep their exponents: (word >> exponent_shift) & exponent_mask. Mask 0: one class.
struct WordLayout {
  size_t word_bytes = 0;  // 1, 2, 4 or 8
  int exponent_shift = 0;
  uint32_t exponent_mask = 0;  // below 2^11, and below 2^(8 word_bytes - exponent_shift)
};

// The same for words of any layout, counted down from an exponent that the caller chose:
//   class of i = clamp(top - exponent of word i, 0, 15)
// classes: one per word; words at any alignment.
using ClassifyWordsFn = void (*)(ByteView words, const WordLayout& layout, uint32_t top,
                                 std::span<uint8_t> classes);

// positions: strictly ascending, below classes.size() <= 2^20. classes: each below kRankClasses.
// Writes the rank of each position to ranks (as long as positions). Returns the elements by class.
using RankFn = ClassCounts (*)(std::span<const uint8_t> classes,
                               std::span<const uint32_t> positions, uint32_t* ranks);

// The inverse. ranks: those of class 0, strictly ascending and below the number of its elements,
// then those of class 1, ...; entries[c] of class c. Writes their positions, ascending.
using SelectFn = void (*)(std::span<const uint8_t> classes, const ClassCounts& entries,
                          const uint32_t* ranks, uint32_t* positions);

struct ClassRankBody {
  std::string_view name;
  ClassifyFn classify;
  ClassifyWordsFn classify_words;
  RankFn rank;
  SelectFn select;
};

// Every body gives the same output as the reference. The reference first, the fastest last.
std::span<const ClassRankBody> ClassRankBodies();

}  // namespace pulse::kernels
