// The change of one array of words (a tensor, or a range of one) <-> bytes: codec "fast".
//
// Positions as gaps and values as signed steps (after - before, modulo the word's width), in
// independent blocks of kWordDeltaBlockElements words, under zstd. docs/format.md has the layout.
#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

inline constexpr uint64_t kWordDeltaBlockElements = uint64_t{1} << 20;

struct WordDelta {
  Bytes bytes;
  uint64_t changed = 0;  // words that differ
};

// before, after: equal lengths, a multiple of word_bytes (1, 2, 4 or 8): else kInvalidArgument.
// Deterministic up to the zstd release. Memory: the result and one block's scratch.
StatusOr<WordDelta> EncodeWordDelta(const kernels::KernelTable& kernels, ByteView before,
                                    ByteView after, size_t word_bytes);

// Rebuilds `after` from `before` and the encoded bytes, into `after` (same length as `before`; may
// be the same memory). kDataLoss for any bytes that no encoder writes; then `after` is unspecified.
// Whether `before` was the right base is the caller's to check, by digest.
Status ApplyWordDelta(const kernels::KernelTable& kernels, ByteView delta, ByteView before,
                      size_t word_bytes, ByteSpan after);

}  // namespace pulse
