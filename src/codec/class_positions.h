// Changed positions of a block <-> bits, by the exponent of the word that stands there before the
// change: small weights change often, large ones hardly ever, and the reader has the old words.
//
// Each class of words (kernels/class_scan) has the subset of its ranks that changed. Tiles of 2048
// words in which nothing changes are left out of the ranks where that saves bits: rows that are
// never trained.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/bit_streams.h"
#include "core/bytes.h"
#include "core/dtype.h"
#include "core/status.h"
#include "kernels/class_scan/class_scan.h"

namespace pulse {

// Where words of that type keep their exponents; integers have one class.
kernels::WordLayout LayoutOf(DType dtype);

// Class 0: exponents from here up. Taken from a sample of the words, leaving out the largest of
// them (outliers, infinities, NaNs), so that the 16 classes cover what is common. words: at most
// 2^20; a block's words before the change.
uint32_t TopExponent(ByteView words, const kernels::WordLayout& layout);

// Entries of a block, class by class, ascending inside a class. Values are coded in this order.
struct ClassOrder {
  std::array<uint32_t, kernels::kClasses + 1> begins = {};  // of the classes in `positions`
  std::vector<uint32_t> positions;

  std::span<const uint32_t> Class(size_t c) const {
    return std::span(positions).subspan(begins[c], begins[c + 1] - begins[c]);
  }
};

// Not thread-safe; reuse one for many blocks.
class ClassPositionCoder {
 public:
  // The scan must outlive the coder.
  ClassPositionCoder(const kernels::ClassScanBody& scan, const kernels::WordLayout& layout)
      : scan_(scan), layout_(layout) {}

  // before: the block's old words. positions: ascending, not empty. Fills `order`, the same entries
  // in the order in which the reader will have them.
  void Encode(ByteView before, std::span<const uint32_t> positions, StreamsWriter& out,
              ClassOrder& order);

  // The inverse: `entries` (1 .. words) of them. kDataLoss for anything that Encode doesn't write;
  // then `order` is unspecified.
  Status Decode(ByteView before, size_t entries, StreamsReader& in, ClassOrder& order);

 private:
  kernels::ClassBlock BlockOf(ByteView before) const;
  void MarkTiles(size_t words, std::span<const uint32_t> positions);

  const kernels::ClassScanBody& scan_;
  kernels::WordLayout layout_;
  std::vector<uint8_t> touched_;  // per tile: something changed
  std::vector<uint8_t> classes_;
  std::vector<uint32_t> ranks_;
};

}  // namespace pulse
