// Changed positions of a block <-> bits, by the exponent of the word that stands there before the
// change: small weights change often, large ones hardly ever, and the reader has the old words.
//
// Each class of words (kernels/class_rank) has the subset of its ranks that changed. Tiles of 2048
// words in which nothing changes are left out of the ranks where that saves bits: rows that are
// never trained.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
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

// Class 0: exponents from here up. Taken from a sample of a block's words, leaving out the largest
// of them (outliers, infinities, NaNs), so that the 16 classes cover what is common.
class ExponentSample {
 public:
  // The sample of a block of so many words, at most 2^20, is empty.
  void Start(size_t block_words, const kernels::WordLayout& layout);
  // The block's next words.
  void Add(ByteView words);
  // Of all words that were added.
  uint32_t Top() const;

 private:
  template <typename Word>
  void Count(ByteView words);

  kernels::WordLayout layout_;
  size_t stride_ = 1;
  size_t skip_ = 0;  // words before the next sampled one
  size_t sampled_ = 0;
  std::array<uint32_t, 2048> histogram_ = {};
};

// Where the entries of each class begin among all entries in the order of the classes; the last one
// is how many entries there are.
using ClassBegins = std::array<uint32_t, kernels::kRankClasses + 1>;

// Not thread-safe; reuse one for many blocks: the classes of one are guessed from those before it.
class ClassPositionCoder {
 public:
  // Words that are worth being scanned at once: they stay in the core's cache.
  static constexpr size_t kChunkWords = 32 * kernels::kTileWords;

  // most_words: of a block.
  ClassPositionCoder(const kernels::ClassRankBody& kernel, const kernels::WordLayout& layout,
                     size_t most_words);

  // A block of so many words, at most most_words, begins.
  void Start(size_t block_words);
  // The block's next old words: kChunkWords, but what is left for the last ones.
  void Add(ByteView before);

  // Behind the last Add. before: the whole block. positions: ascending, not empty.
  void Encode(ByteView before, std::span<const uint32_t> positions, StreamsWriter& out);
  // Of the last Encode: where entry i stands in the order of the classes (ascending inside each):
  // what else is known of it is coded in that order.
  std::span<const uint32_t> slots() const { return {slots_.get(), begins_.back()}; }

  // The inverse of Start to Encode: fills `positions` (1 .. as many as there are words) in the
  // order of the classes. kDataLoss for anything that Encode doesn't write; then they are
  // unspecified.
  Status Decode(ByteView before, StreamsReader& in, std::span<uint32_t> positions);

  // Of the last Encode or Decode.
  const ClassBegins& begins() const { return begins_; }

 private:
  void Classify(ByteView before, size_t first_tile);
  void FinishClasses(ByteView before);
  void LeaveOutAllBut(std::span<const uint32_t> tiles);
  void SortByClass(size_t entries);
  Status CheckMap(std::span<const uint32_t> active, std::span<const uint32_t> positions);

  kernels::ClassRankBody kernel_;
  kernels::WordLayout layout_;
  ExponentSample sample_;
  std::optional<uint32_t> top_;  // what the tiles were classified by
  size_t tiles_count_ = 0;
  size_t classified_ = 0;  // tiles
  // Room for a block; never filled as a whole.
  std::unique_ptr<kernels::ClassTile[]> tiles_;
  std::unique_ptr<kernels::TileCounts[]> counts_;
  std::unique_ptr<uint32_t[]> ranks_, by_class_, slots_;
  std::unique_ptr<uint8_t[]> classes_;  // of the entries
  ClassBegins begins_ = {};
  std::vector<bool> touched_;
};

}  // namespace pulse
