// Moves words by signed steps: words[positions[i]] += steps[i], modulo the word's width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace pulse::kernels {

// words: a multiple of word_bytes (1, 2, 4 or 8) long, any alignment. positions: distinct and in
// range (the caller has checked). steps: positions.size() little-endian words of word_bytes.
using ApplyFn = void (*)(ByteSpan words, size_t word_bytes, std::span<const uint32_t> positions,
                         ByteView steps);

struct ApplyBody {
  std::string_view name;
  ApplyFn run;
};

// The reference first, the fastest last.
std::span<const ApplyBody> ApplyBodies();

}  // namespace pulse::kernels
