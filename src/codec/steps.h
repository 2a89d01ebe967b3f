// Steps (after - before, modulo the word's width, never zero) <-> 2-bit codes, with the rare larger
// steps escaped to whole words.
//
//   rank = zigzag(step) - 1:  -1, +1, -2, +2, -3, ...  ->  0, 1, 2, 3, 4, ...
//   code = min(rank, 3); behind code 3 the escape rank - 3
//
// Four codes share a byte, the first in its lowest bits: zstd's Huffman stage, which can't go below
// a bit per byte, then works on four steps at a time.
#pragma once

#include <cstdint>
#include <span>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

struct CodedSteps {
  Bytes codes;    // ceil(steps / 4) bytes; unused bits zero
  Bytes escapes;  // little-endian words
};

constexpr size_t CodeBytes(size_t steps) {
  return (steps + 3) / 4;
}

// Replaces `out`. before, after: equal lengths, words of word_bytes (1, 2, 4 or 8) that differ at
// all `positions`.
void EncodeSteps(ByteView before, ByteView after, size_t word_bytes,
                 std::span<const uint32_t> positions, CodedSteps& out);

// How many escapes `steps` codes call for. codes: CodeBytes(steps) bytes; kDataLoss if an unused
// bit is set.
StatusOr<size_t> CountEscapes(ByteView codes, size_t steps);

// Fills `steps`, little-endian words of word_bytes. codes and escapes fit its length
// (CountEscapes). kDataLoss if an escape is not the rank of a step.
Status DecodeSteps(ByteView codes, ByteView escapes, size_t word_bytes, ByteSpan steps);

}  // namespace pulse
