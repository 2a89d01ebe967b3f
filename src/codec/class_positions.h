// Changed positions of a block <-> bits, by the exponent of the word that stands there before the
// change: small weights change often, large ones hardly ever, and the reader has the old words.
//
// Each class of words (kernels/class_rank) has the subset of its ranks that changed. Tiles of 2048
// words in which nothing changes are left out of the ranks where that saves bits: rows that are
// never trained.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/block_streams.h"
#include "core/bytes.h"
#include "core/dtype.h"
#include "core/status.h"
#include "kernels/class_rank/class_rank.h"

namespace pulse {

// Where words of that type keep their exponents; integers have one class.
kernels::WordLayout LayoutOf(DType dtype);

// Class 0: exponents from here up. Taken from a sample of the words, leaving out the largest of
// them (outliers, infinities, NaNs), so that the 16 classes cover what is common. words: at most
// 2^20; a block's words before the change.
uint32_t TopExponent(ByteView words, const kernels::WordLayout& layout);

// How the entries of a block, ascending, stand class by class: values are coded in that order.
struct ClassOrder {
  std::array<uint32_t, kernels::kRankClasses + 1> begins = {};  // of the classes
  std::vector<uint32_t> slots;  // entry i stands at slots[i]; ascending inside a class
};

// Not thread-safe; reuse one for many blocks.
class ClassPositionCoder {
 public:
  ClassPositionCoder(const kernels::ClassRankBody& kernel, const kernels::WordLayout& layout)
      : kernel_(kernel), layout_(layout) {}

  // before: the block's old words, at most 2^20. positions: ascending, not empty. Fills `order`.
  void Encode(ByteView before, std::span<const uint32_t> positions, StreamsWriter& out,
              ClassOrder& order);

  // The inverse: fills `positions` (1 .. as many as there are words) and `order`. kDataLoss for
  // anything that Encode doesn't write; then both are unspecified.
  Status Decode(ByteView before, StreamsReader& in, std::span<uint32_t> positions,
                ClassOrder& order);

 private:
  void Classify(ByteView before);
  void Compact(std::span<const uint32_t> tiles);
  void Order(std::span<const uint32_t> positions, ClassOrder& order) const;

  kernels::ClassRankBody kernel_;
  kernels::WordLayout layout_;
  std::vector<uint8_t> classes_;  // of the words that take part
  std::vector<uint32_t> ranks_, by_class_, moved_;
};

}  // namespace pulse
