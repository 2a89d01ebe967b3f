#include "codec/class_steps.h"

#include <algorithm>

#include "codec/rice_set.h"

namespace pulse {
namespace {

// BitSource::Get takes at most 57 bits at a time.
constexpr int kHalf = 32;

void PutLong(uint64_t value, int bits, BitSink& out) {
  if (bits > kHalf) {
    out.Put(value & 0xffffffff, kHalf);
    value >>= kHalf;
    bits -= kHalf;
  }
  out.Put(value, bits);
}

uint64_t GetLong(int bits, BitSource& in) {
  if (bits <= kHalf) return in.Get(bits);
  const uint64_t low = in.Get(kHalf);
  return low | in.Get(bits - kHalf) << kHalf;
}

}  // namespace

ClassStepCoder::ClassStepCoder(size_t word_bytes)
    : word_bits_(static_cast<int>(8 * word_bytes)), word_mask_(~uint64_t{0} >> (64 - word_bits_)) {
  levels_ = {{1, 0}, {2, 0}, {3, 0}};
  for (int bits = 2; bits < word_bits_ - 1; ++bits) levels_.push_back({uint64_t{1} << bits, bits});
  // The largest size has no other above its threshold.
  levels_.push_back({uint64_t{1} << (word_bits_ - 1), 0});
}

void ClassStepCoder::Encode(const ClassOrder& order, std::span<const uint64_t> steps,
                            StreamsWriter& out) {
  for (size_t c = 0; c + 1 < order.begins.size(); ++c) {
    EncodeClass(steps.subspan(order.begins[c], order.begins[c + 1] - order.begins[c]), out);
  }
}

void ClassStepCoder::EncodeClass(std::span<const uint64_t> steps, StreamsWriter& out) {
  if (steps.empty()) return;
  at_level_.clear();
  uint64_t largest = 0;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    out.raw.Put(IsNegative(steps[i]) ? 1 : 0, 1);
    largest = std::max(largest, SizeOfStep(steps[i]));
    if (SizeOfStep(steps[i]) >= levels_[1].threshold) at_level_.push_back(i);
  }
  members_ = at_level_;  // of all steps, those at level 1 or above
  auto among = static_cast<uint32_t>(steps.size());
  for (size_t level = 1;; ++level) {
    out.PutNumber(static_cast<uint32_t>(members_.size()));
    if (members_.empty()) break;
    EncodeSet(among, members_, out);
    if (level + 1 == levels_.size()) break;
    among = static_cast<uint32_t>(at_level_.size());
    members_.clear();
    size_t kept = 0;
    for (uint32_t i = 0; i < among; ++i) {
      if (SizeOfStep(steps[at_level_[i]]) < levels_[level + 1].threshold) continue;
      members_.push_back(i);
      at_level_[kept++] = at_level_[i];
    }
    at_level_.resize(kept);
  }
  if (largest < 4) return;
  for (const uint64_t step : steps) {
    const uint64_t size = SizeOfStep(step);
    if (size < 4) continue;
    size_t level = levels_.size() - 1;
    while (size < levels_[level].threshold) --level;
    PutLong(size - levels_[level].threshold, levels_[level].extra_bits, out.raw);
  }
}

Status ClassStepCoder::Decode(const ClassOrder& order, StreamsReader& in,
                              std::span<uint64_t> steps) {
  for (size_t c = 0; c + 1 < order.begins.size(); ++c) {
    PULSE_RETURN_IF_ERROR(
        DecodeClass(in, steps.subspan(order.begins[c], order.begins[c + 1] - order.begins[c])));
  }
  return OkStatus();
}

StatusOr<bool> ClassStepCoder::DecodeLevels(StreamsReader& in, size_t count) {
  reached_.assign(count, 0);
  at_level_.clear();
  auto among = static_cast<uint32_t>(count);
  for (size_t level = 1; level < levels_.size() && among > 0; ++level) {
    PULSE_ASSIGN_OR_RETURN(const uint32_t reaching, in.GetNumber(among));
    members_.resize(reaching);
    PULSE_RETURN_IF_ERROR(DecodeSet(among, in, members_));
    for (uint32_t i = 0; i < reaching; ++i) {
      const uint32_t step = level == 1 ? members_[i] : at_level_[members_[i]];
      reached_[step] = static_cast<uint8_t>(level);
      // In place where the list exists: members ascend, so none is read after it was overwritten.
      if (level == 1) {
        at_level_.push_back(step);
      } else {
        at_level_[i] = step;
      }
    }
    if (level == 1 && reaching == 0) return true;
    at_level_.resize(reaching);
    among = reaching;
  }
  return false;
}

Status ClassStepCoder::DecodeClass(StreamsReader& in, std::span<uint64_t> steps) {
  if (steps.empty()) return OkStatus();
  PULSE_RETURN_IF_ERROR(in.NeedRaw(steps.size()));
  for (uint64_t& step : steps) step = in.raw.Get(1);  // for now, whether it is negative
  PULSE_ASSIGN_OR_RETURN(const bool all_ones, DecodeLevels(in, steps.size()));
  if (all_ones) {
    for (uint64_t& step : steps) step = step != 0 ? word_mask_ : 1;
    return OkStatus();
  }
  uint64_t extra_bits = 0;
  for (const uint8_t level : reached_) {
    extra_bits += static_cast<uint64_t>(levels_[level].extra_bits);
  }
  PULSE_RETURN_IF_ERROR(in.NeedRaw(extra_bits));
  for (size_t i = 0; i < steps.size(); ++i) {
    const Level level = levels_[reached_[i]];
    const uint64_t size = level.threshold + GetLong(level.extra_bits, in.raw);
    const bool negative = steps[i] != 0;
    if (!negative && IsNegative(size)) {
      return DataLoss("a step of +{}, which is written as its negative", size);
    }
    steps[i] = negative ? Negated(size) : size;
  }
  return OkStatus();
}

}  // namespace pulse
