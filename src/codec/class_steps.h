// Steps (after - before, modulo the word's width, never zero) <-> bits, class by class.
//
// A sign bit each. Sizes by thresholds 1, 2, 3, 4, 8, 16, ... 2^(8 w - 1): of the steps that reach
// a threshold, the subset that reaches the next one, until none does; then what lies above the last
// threshold reached, as plain bits. Where a class moves by one unit in the last place, which is
// nearly always, its sizes cost one number.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/block_streams.h"
#include "codec/class_positions.h"
#include "core/status.h"

namespace pulse {

// Not thread-safe; reuse one for many blocks.
class ClassStepCoder {
 public:
  // word_bytes: 1, 2, 4 or 8.
  explicit ClassStepCoder(size_t word_bytes);

  // steps: class by class, as `begins` says; below 2^(8 word_bytes), not zero.
  void Encode(const ClassBegins& begins, std::span<const uint64_t> steps, StreamsWriter& out);

  // The inverse. kDataLoss for anything that Encode doesn't write; then `steps` is unspecified.
  Status Decode(const ClassBegins& begins, StreamsReader& in, std::span<uint64_t> steps);

 private:
  // [threshold, next threshold) has 2^extra_bits sizes.
  struct Level {
    uint64_t threshold;
    int extra_bits;
  };

  void EncodeClass(std::span<const uint64_t> steps, StreamsWriter& out);
  Status DecodeClass(StreamsReader& in, std::span<uint64_t> steps);
  // Makes of each step the threshold that its size reached. Fills long_.
  Status DecodeLevels(StreamsReader& in, std::span<uint64_t> steps);
  Status DecodeExtraBits(StreamsReader& in, std::span<uint64_t> steps);
  // Of a size of 4 and above: from level 3 on the thresholds are the powers of two.
  const Level& LevelOf(uint64_t size) const {
    return levels_[static_cast<size_t>(std::bit_width(size))];
  }
  bool IsNegative(uint64_t step) const { return step >> (word_bits_ - 1) != 0; }
  // step or its negative: without a branch, since signs can't be foretold.
  uint64_t NegatedIf(bool negative, uint64_t step) const {
    const uint64_t ones = 0 - uint64_t{negative};
    return ((step ^ ones) - ones) & word_mask_;
  }

  int word_bits_;
  uint64_t word_mask_;
  std::vector<Level> levels_;
  std::vector<uint64_t> sizes_, signs_;
  std::vector<uint32_t> at_level_, members_;
  std::vector<uint32_t> long_;  // the steps of a class whose sizes have extra bits, or could
};

}  // namespace pulse
