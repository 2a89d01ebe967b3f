#include "codec/small_block_encoder.h"

#include <bit>

#include "codec/rank_list.h"
#include "kernels/class_rank/class_rank_math.h"
#include "kernels/sparse_small/grid_value.h"

namespace pulse {

using kernels::ClassCounts;
using kernels::kRankClasses;

ByteView SmallBlockEncoder::Encode(const ThetaClasses& classes, SparseEntries entries) {
  payload_.clear();
  BitWriter writer(payload_);
  WritePositions(classes, entries.positions, writer);
  TakeApart(classes, entries);
  WriteValues(writer);
  writer.Finish();
  return payload_;
}

void SmallBlockEncoder::WritePositions(const ThetaClasses& classes,
                                       std::span<const uint32_t> positions, BitWriter& writer) {
  const ClassCounts& sizes = classes.sizes();
  chosen_.assign(classes.tiles().size() * kernels::kTileGroups, 0);
  for (const uint32_t position : positions) chosen_[position / 64] |= uint64_t{1} << position % 64;
  const kernels::ClassBits& bits = room_.For(sizes);
  kernels_.class_bits.split(classes.tiles(), classes.counts(), chosen_.data(), bits);
  ranks_.resize(positions.size() + kernels::kListSlack);
  ClassCounts entries = {};
  uint64_t most_bits = kRankClasses * kMostBits;
  size_t begin = 0;
  for (size_t c = 0; c < kRankClasses; ++c) {
    entries[c] = static_cast<uint32_t>(
        kernels_.class_bits.list({bits[c], (sizes[c] + 63) / 64}, &ranks_[begin]));
    begin += entries[c];
    most_bits += MaxRankBits(entries[c], sizes[c]);
  }
  writer.Reserve(most_bits);
  for (size_t c = 0; c < kRankClasses; ++c) {
    writer.Write(entries[c], static_cast<unsigned>(std::bit_width(sizes[c])));
  }
  begin = 0;
  for (size_t c = 0; c < kRankClasses; ++c) {
    WriteRanks(std::span(ranks_).subspan(begin, entries[c]), sizes[c], writer);
    begin += entries[c];
  }
}

void SmallBlockEncoder::TakeApart(const ThetaClasses& classes, SparseEntries entries) {
  for (PrefixCounts& counts : counts_) counts.fill(0);
  parts_.resize(entries.positions.size());
  off_grid_.clear();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const uint32_t at = BitsOf(classes.theta()[entries.positions[i]]);
    const uint32_t value = BitsOf(entries.values[i]);
    const uint32_t symbol = SymbolOf(at, value);
    const size_t code = CodeOf(kernels::ClassOf(at, kernels::kFloatLayout, classes.top()));
    unsigned below = BitsBelowGrid(at, ExponentOfSymbol(symbol), coarser_);
    if (LowBits(value, below) != 0) {
      off_grid_.push_back(static_cast<uint32_t>(i));
      below = 0;
    }
    parts_[i] = {.plain = LowBits(value, kPlainMantissaBits) >> below,
                 .symbol = static_cast<uint16_t>(symbol),
                 .plain_bits = static_cast<uint8_t>(kPlainMantissaBits - below),
                 .code = static_cast<uint8_t>(code)};
    ++counts_[code][symbol];
  }
}

void SmallBlockEncoder::WriteValues(BitWriter& writer) {
  const auto entries = static_cast<uint32_t>(parts_.size());
  writer.Reserve(MaxRankBits(off_grid_.size(), entries) + kSmallCodes * kMaxLengthsBits +
                 uint64_t{entries} * (kMaxPrefixBits + kPlainMantissaBits) + 2 * kMostBits);
  writer.Write(off_grid_.size(), static_cast<unsigned>(std::bit_width(entries)));
  WriteRanks(off_grid_, entries, writer);
  std::vector<PrefixEncoder> encoders;
  for (const PrefixCounts& counts : counts_) {
    const PrefixLengths lengths = LengthsFor(counts);
    encoders.emplace_back(lengths);
    if (lengths != PrefixLengths{}) WriteLengths(lengths, writer);
  }
  for (const Parts& parts : parts_) {
    const PrefixEncoder::Code code = encoders[parts.code].codes[parts.symbol];
    writer.Write(uint64_t{parts.plain} << code.length | code.bits,
                 code.length + unsigned{parts.plain_bits});
  }
}

}  // namespace pulse
