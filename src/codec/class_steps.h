// Steps (after - before, modulo the word's width, never zero) <-> bits, class by class.
//
// A sign bit each. Sizes by thresholds 1, 2, 3, 4, 8, 16, ... 2^(8 w - 1): of the steps that reach
// a threshold, the subset that reaches the next one, until none does; then what lies above the last
// threshold reached, as plain bits. Where a class moves by one unit in the last place, which is
// nearly always, its sizes cost one number.
#pragma once

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

  // steps: class by class, as order.begins says; below 2^(8 word_bytes), not zero.
  void Encode(const ClassOrder& order, std::span<const uint64_t> steps, StreamsWriter& out);

  // The inverse. kDataLoss for anything that Encode doesn't write; then `steps` is unspecified.
  Status Decode(const ClassOrder& order, StreamsReader& in, std::span<uint64_t> steps);

 private:
  // [threshold, next threshold) has 2^extra_bits sizes.
  struct Level {
    uint64_t threshold;
    int extra_bits;
  };

  void EncodeClass(std::span<const uint64_t> steps, StreamsWriter& out);
  Status DecodeClass(StreamsReader& in, std::span<uint64_t> steps);
  // Fills reached_; true if all stayed at the first level.
  StatusOr<bool> DecodeLevels(StreamsReader& in, size_t count);
  uint64_t SizeOfStep(uint64_t step) const { return IsNegative(step) ? Negated(step) : step; }
  bool IsNegative(uint64_t step) const { return step >> (word_bits_ - 1) != 0; }
  uint64_t Negated(uint64_t step) const { return (0 - step) & word_mask_; }

  int word_bits_;
  uint64_t word_mask_;
  std::vector<Level> levels_;
  std::vector<uint8_t> reached_;  // by step of a class: its level
  std::vector<uint32_t> at_level_, members_;
};

}  // namespace pulse
