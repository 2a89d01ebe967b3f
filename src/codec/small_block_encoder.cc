#include "codec/small_block_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

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
  // A block of theta is larger than a core's cache.
  constexpr size_t kAhead = 32;
  constexpr size_t kBatch = 512;
  std::array<uint32_t, kBatch> theta, values;
  for (PrefixCounts& counts : counts_) counts.fill(0);
  const size_t count = entries.positions.size();
  symbols_.resize(count);
  plain_.resize(count);
  off_grid_.clear();
  for (size_t first = 0; first < count; first += kBatch) {
    const size_t length = std::min(kBatch, count - first);
    for (size_t i = 0; i < length; ++i) {
      const size_t ahead = std::min(first + i + kAhead, count - 1);
      __builtin_prefetch(&classes.theta()[entries.positions[ahead]]);
      theta[i] = BitsOf(classes.theta()[entries.positions[first + i]]);
    }
    std::memcpy(values.data(), &entries.values[first], length * sizeof(float));
    kernels_.grid_values.split(coarser_, std::span(theta).first(length),
                               std::span(values).first(length), &symbols_[first], &plain_[first]);
    for (size_t i = 0; i < length; ++i) {
      const size_t code = CodeOf(kernels::ClassOf(theta[i], kernels::kFloatLayout, classes.top()));
      uint32_t& symbol = symbols_[first + i];
      ++counts_[code][symbol];
      symbol += static_cast<uint32_t>(code * kPrefixSymbols);
      if ((plain_[first + i] & kernels::kOffGridFlag) != 0) {
        off_grid_.push_back(static_cast<uint32_t>(first + i));
      }
    }
  }
}

void SmallBlockEncoder::WriteValues(BitWriter& writer) {
  const auto entries = static_cast<uint32_t>(symbols_.size());
  writer.Reserve(MaxRankBits(off_grid_.size(), entries) + kSmallCodes * kMaxLengthsBits +
                 uint64_t{entries} * (kMaxPrefixBits + kPlainMantissaBits) + 2 * kMostBits);
  writer.Write(off_grid_.size(), static_cast<unsigned>(std::bit_width(entries)));
  WriteRanks(off_grid_, entries, writer);
  for (size_t code = 0; code < kSmallCodes; ++code) {
    const PrefixLengths lengths = LengthsFor(counts_[code]);
    encoders_[code] = PrefixEncoder(lengths);
    if (lengths != PrefixLengths{}) WriteLengths(lengths, writer);
  }
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const uint32_t symbol = symbols_[i];
    const PrefixEncoder::Code code =
        encoders_[symbol / kPrefixSymbols].codes[symbol % kPrefixSymbols];
    const unsigned plain_bits = plain_[i] >> kernels::kPlainCountShift & 0x1F;
    const uint64_t plain = LowBits(plain_[i], kPlainMantissaBits);
    writer.Write(plain << code.length | code.bits, code.length + plain_bits);
  }
}

}  // namespace pulse
