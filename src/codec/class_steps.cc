#include "codec/class_steps.h"

#include <algorithm>

#include "codec/rice_set.h"

namespace pulse {
namespace {

// BitSource::Get takes at most 57 bits at a time.
constexpr int kHalf = 32;
constexpr size_t kSignsAtOnce = 56;

// The first level with extra bits, and its threshold.
constexpr size_t kFirstLong = 3;

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

void ClassStepCoder::Encode(const ClassBegins& begins, std::span<const uint64_t> steps,
                            StreamsWriter& out) {
  for (size_t c = 0; c + 1 < begins.size(); ++c) {
    EncodeClass(steps.subspan(begins[c], begins[c + 1] - begins[c]), out);
  }
}

void ClassStepCoder::EncodeClass(std::span<const uint64_t> steps, StreamsWriter& out) {
  if (steps.empty()) return;
  sizes_.resize(steps.size());
  for (size_t begin = 0; begin < steps.size(); begin += kSignsAtOnce) {
    const size_t end = std::min(begin + kSignsAtOnce, steps.size());
    uint64_t signs = 0;
    for (size_t i = begin; i < end; ++i) {
      const bool negative = IsNegative(steps[i]);
      signs |= uint64_t{negative} << (i - begin);
      sizes_[i] = NegatedIf(negative, steps[i]);
    }
    out.raw.Put(signs, static_cast<int>(end - begin));
  }
  // Without branches: whether a step reaches a threshold is what can't be foretold.
  at_level_.resize(steps.size());
  size_t kept = 0;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    at_level_[kept] = i;
    kept += sizes_[i] >= levels_[1].threshold ? 1 : 0;
  }
  at_level_.resize(kept);
  members_ = at_level_;  // of all steps, those at level 1 or above
  long_.clear();
  auto among = static_cast<uint32_t>(steps.size());
  for (size_t level = 1;; ++level) {
    if (level == kFirstLong) long_ = at_level_;
    out.PutNumber(static_cast<uint32_t>(members_.size()));
    if (members_.empty()) break;
    EncodeSet(among, members_, out);
    if (level + 1 == levels_.size()) break;
    among = static_cast<uint32_t>(at_level_.size());
    kept = 0;
    for (uint32_t i = 0; i < among; ++i) {
      const bool reaches = sizes_[at_level_[i]] >= levels_[level + 1].threshold;
      members_[kept] = i;
      at_level_[kept] = at_level_[i];
      kept += reaches ? 1 : 0;
    }
    members_.resize(kept);
    at_level_.resize(kept);
  }
  for (const uint32_t i : long_) {
    const Level& level = LevelOf(sizes_[i]);
    PutLong(sizes_[i] - level.threshold, level.extra_bits, out.raw);
  }
}

Status ClassStepCoder::Decode(const ClassBegins& begins, StreamsReader& in,
                              std::span<uint64_t> steps) {
  for (size_t c = 0; c + 1 < begins.size(); ++c) {
    PULSE_RETURN_IF_ERROR(DecodeClass(in, steps.subspan(begins[c], begins[c + 1] - begins[c])));
  }
  return OkStatus();
}

Status ClassStepCoder::DecodeLevels(StreamsReader& in, std::span<uint64_t> steps) {
  std::ranges::fill(steps, levels_[0].threshold);
  long_.clear();
  auto among = static_cast<uint32_t>(steps.size());
  for (size_t level = 1; level < levels_.size() && among > 0; ++level) {
    PULSE_ASSIGN_OR_RETURN(const uint32_t reaching, in.GetNumber(among));
    members_.resize(reaching);
    PULSE_RETURN_IF_ERROR(DecodeSet(among, in, members_));
    if (level == 1) {
      at_level_ = members_;
    } else {
      // In place: members ascend, so none is read after it was overwritten.
      for (uint32_t i = 0; i < reaching; ++i) at_level_[i] = at_level_[members_[i]];
      at_level_.resize(reaching);
    }
    for (const uint32_t step : at_level_) steps[step] = levels_[level].threshold;
    if (level == kFirstLong) long_ = at_level_;
    among = reaching;
  }
  return OkStatus();
}

Status ClassStepCoder::DecodeExtraBits(StreamsReader& in, std::span<uint64_t> steps) {
  uint64_t bits = 0;
  for (const uint32_t i : long_) bits += static_cast<uint64_t>(LevelOf(steps[i]).extra_bits);
  PULSE_RETURN_IF_ERROR(in.NeedRaw(bits));
  for (const uint32_t i : long_) steps[i] += GetLong(LevelOf(steps[i]).extra_bits, in.raw);
  return OkStatus();
}

Status ClassStepCoder::DecodeClass(StreamsReader& in, std::span<uint64_t> steps) {
  if (steps.empty()) return OkStatus();
  PULSE_RETURN_IF_ERROR(in.NeedRaw(steps.size()));
  signs_.clear();
  for (size_t left = steps.size(); left > 0; left -= std::min(left, kSignsAtOnce)) {
    signs_.push_back(in.raw.Get(static_cast<int>(std::min(left, kSignsAtOnce))));
  }
  PULSE_RETURN_IF_ERROR(DecodeLevels(in, steps));
  PULSE_RETURN_IF_ERROR(DecodeExtraBits(in, steps));
  for (size_t begin = 0, word = 0; begin < steps.size(); begin += kSignsAtOnce, ++word) {
    uint64_t signs = signs_[word];
    const size_t end = std::min(begin + kSignsAtOnce, steps.size());
    for (size_t i = begin; i < end; ++i, signs >>= 1) {
      steps[i] = NegatedIf((signs & 1) != 0, steps[i]);
    }
  }
  // The largest size is that of a negative step alone.
  for (const uint32_t i : long_) {
    const bool negative = (signs_[i / kSignsAtOnce] >> i % kSignsAtOnce & 1) != 0;
    if (!negative && IsNegative(steps[i])) {
      return DataLoss("a step of +{}, which is written as its negative", steps[i]);
    }
  }
  return OkStatus();
}

}  // namespace pulse
