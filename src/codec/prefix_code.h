// Huffman codes over a fixed alphabet, whose lengths follow from the symbols' counts by one rule:
// so a reader that has counted what it read can tell whether an encoder wrote it.
#pragma once

#include <array>
#include <cstdint>

#include "codec/bit_stream.h"
#include "core/status.h"

namespace pulse {

inline constexpr size_t kPrefixSymbols = 1024;
inline constexpr unsigned kMaxPrefixBits = 11;

using PrefixCounts = std::array<uint32_t, kPrefixSymbols>;
// 0: a symbol that does not occur. A symbol that occurs alone has length 1, but takes no bits.
using PrefixLengths = std::array<uint8_t, kPrefixSymbols>;

// Huffman's lengths: of the two lightest nodes, a symbol goes before a pair, the smaller symbol
// before the larger, the earlier pair before the later. While the longest exceeds kMaxPrefixBits,
// every count c that is not 0 becomes (c + 1) / 2 and the lengths are built anew.
PrefixLengths LengthsFor(PrefixCounts counts);

// The most bits that WriteLengths writes.
inline constexpr uint64_t kMaxLengthsBits = kPrefixSymbols * 5;

// Each length in 4 bits; behind a 0 the number of further zeros, plus one, in Elias's gamma code.
void WriteLengths(const PrefixLengths& lengths, BitWriter& writer);

// kDataLoss unless the bits are those of lengths of a complete code, or of one symbol alone.
Status ReadLengths(BitReader& reader, PrefixLengths& lengths);

// By symbol: its code, first bit lowest, and how many bits that is.
struct PrefixEncoder {
  PrefixEncoder() = default;
  explicit PrefixEncoder(const PrefixLengths& lengths);

  struct Code {
    uint16_t bits = 0;
    uint16_t length = 0;
  };
  std::array<Code, kPrefixSymbols> codes = {};
};

// By the next kMaxPrefixBits bits: the symbol that they begin with.
class PrefixDecoder {
 public:
  // lengths: as ReadLengths gives them.
  void Build(const PrefixLengths& lengths);

  // Takes the symbol off the low end of `bits`; *length: how many bits it took.
  uint32_t Decode(uint64_t bits, unsigned* length) const {
    const uint16_t entry = table_[bits & (table_.size() - 1)];
    *length = entry / kPrefixSymbols;
    return entry % kPrefixSymbols;
  }

  // The same, by the bits: length * kPrefixSymbols + symbol.
  uint16_t entry(size_t bits) const { return table_[bits]; }

 private:
  std::array<uint16_t, size_t{1} << kMaxPrefixBits> table_;  // length * kPrefixSymbols + symbol
};

}  // namespace pulse
