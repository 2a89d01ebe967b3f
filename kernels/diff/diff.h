// Which words of two arrays differ, as bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace pulse::kernels {

// before and after: equal lengths, a multiple of word_bytes (1, 2, 4 or 8), at most 2^20 words, any
// alignment. Writes the positions (in words) of the words that differ, ascending, and returns their
// number. positions must have room for all words; entries behind the returned number may be
// overwritten with anything. +0 and -0 differ; NaNs are equal when their bits are.
using DiffFn = size_t (*)(ByteView before, ByteView after, size_t word_bytes, uint32_t* positions);

struct DiffBody {
  std::string_view name;
  DiffFn run;
};

// The reference first, the fastest last.
std::span<const DiffBody> DiffBodies();

}  // namespace pulse::kernels
