#include "codec/class_positions.h"

#include <algorithm>

#include "codec/rice_set.h"
#include "kernels/class_scan/class_scan_math.h"

namespace pulse {
namespace {

using kernels::kClasses;
using kernels::kTileWords;

constexpr size_t kSampleWords = 4096;  // 0.4 % of a block
constexpr size_t kOutliersPerSample = 1024;

size_t TilesOf(size_t words) {
  return (words + kTileWords - 1) / kTileWords;
}

// Whether leaving out `idle` of `tiles` pays: it saves entries * log2(tiles / (tiles - idle)) >=
// 1.44 entries * idle / tiles bits, and costs at most `tiles`. Chance alone never comes near: 1000
// entries leave 14 % of 512 tiles idle.
bool MapPays(size_t tiles, size_t idle, size_t entries) {
  return 3 * uint64_t{entries} * idle >= 2 * uint64_t{tiles} * tiles;
}

std::vector<uint32_t> Ones(std::span<const uint8_t> flags) {
  std::vector<uint32_t> ones;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) ones.push_back(static_cast<uint32_t>(i));
  }
  return ones;
}

template <typename Word>
uint32_t TopOf(ByteView words, const kernels::WordLayout& layout) {
  std::array<uint32_t, 2048> histogram = {};
  const size_t count = words.size() / sizeof(Word);
  const size_t stride = std::max<size_t>(1, count / kSampleWords);
  size_t sampled = 0;
  for (size_t i = 0; i < count; i += stride, ++sampled) {
    ++histogram[kernels::ExponentOf(LoadLittle<Word>(words.data() + i * sizeof(Word)), layout)];
  }
  uint32_t top = layout.exponent_mask;
  for (size_t above = histogram[top]; top > 0 && above <= sampled / kOutliersPerSample;) {
    above += histogram[--top];
  }
  return top;
}

}  // namespace

kernels::WordLayout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kF8E5M2:
      return {1, 2, 0x1f};
    case DType::kF8E4M3:
      return {1, 3, 0x0f};
    case DType::kF8E8M0:
      return {1, 0, 0xff};
    case DType::kF16:
      return {2, 10, 0x1f};
    case DType::kBF16:
      return {2, 7, 0xff};
    case DType::kF32:
      return {4, 23, 0xff};
    case DType::kF64:
      return {8, 52, 0x7ff};
    default:
      return {SizeOf(dtype), 0, 0};
  }
}

uint32_t TopExponent(ByteView words, const kernels::WordLayout& layout) {
  switch (layout.word_bytes) {
    case 1:
      return TopOf<uint8_t>(words, layout);
    case 2:
      return TopOf<uint16_t>(words, layout);
    case 4:
      return TopOf<uint32_t>(words, layout);
    default:
      return TopOf<uint64_t>(words, layout);
  }
}

kernels::ClassBlock ClassPositionCoder::BlockOf(ByteView before) const {
  return {.words = before, .layout = layout_, .top = TopExponent(before, layout_), .active = {}};
}

void ClassPositionCoder::MarkTiles(size_t words, std::span<const uint32_t> positions) {
  touched_.assign(TilesOf(words), 0);
  for (const uint32_t position : positions) touched_[position / kTileWords] = 1;
}

void ClassPositionCoder::Encode(ByteView before, std::span<const uint32_t> positions,
                                StreamsWriter& out, ClassOrder& order) {
  kernels::ClassBlock block = BlockOf(before);
  MarkTiles(before.size() / layout_.word_bytes, positions);
  const std::vector<uint32_t> used = Ones(touched_);
  const auto tiles = static_cast<uint32_t>(touched_.size());
  if (MapPays(tiles, tiles - used.size(), positions.size())) {
    out.PutNumber(static_cast<uint32_t>(used.size()));
    EncodeSet(tiles, used, out);
    block.active = touched_;
  } else {
    out.PutNumber(0);
  }
  classes_.resize(positions.size());
  ranks_.resize(positions.size());
  const kernels::ClassCounts counts = scan_.rank(block, positions, classes_.data(), ranks_.data());

  order.begins = {};
  for (const uint8_t c : classes_) ++order.begins[c + size_t{1}];
  for (size_t c = 0; c < kClasses; ++c) order.begins[c + 1] += order.begins[c];
  order.positions.resize(positions.size());
  std::vector<uint32_t> by_class(positions.size());
  auto next = order.begins;
  for (size_t i = 0; i < positions.size(); ++i) {
    const uint32_t at = next[classes_[i]]++;
    order.positions[at] = positions[i];
    by_class[at] = ranks_[i];
  }
  for (size_t c = 0; c < kClasses; ++c) {
    if (counts[c] == 0) continue;
    const auto members =
        std::span(by_class).subspan(order.begins[c], order.begins[c + 1] - order.begins[c]);
    out.PutNumber(static_cast<uint32_t>(members.size()));
    EncodeSet(counts[c], members, out);
  }
}

Status ClassPositionCoder::Decode(ByteView before, size_t entries, StreamsReader& in,
                                  ClassOrder& order) {
  kernels::ClassBlock block = BlockOf(before);
  const size_t words = before.size() / layout_.word_bytes;
  const auto tiles = static_cast<uint32_t>(TilesOf(words));
  std::vector<uint8_t> active;
  PULSE_ASSIGN_OR_RETURN(const uint32_t used, in.GetNumber(tiles));
  if (used > 0) {
    std::vector<uint32_t> members(used);
    PULSE_RETURN_IF_ERROR(DecodeSet(tiles, in, members));
    active.assign(tiles, 0);
    for (const uint32_t tile : members) active[tile] = 1;
    block.active = active;
  }
  const kernels::ClassCounts counts = scan_.count(block);
  order.positions.resize(entries);
  order.begins = {};
  for (size_t c = 0; c < kClasses; ++c) {
    uint32_t members = 0;
    if (counts[c] > 0) {
      const auto left = static_cast<uint32_t>(entries - order.begins[c]);
      PULSE_ASSIGN_OR_RETURN(members, in.GetNumber(std::min(counts[c], left)));
      PULSE_RETURN_IF_ERROR(
          DecodeSet(counts[c], in, std::span(order.positions).subspan(order.begins[c], members)));
    }
    order.begins[c + 1] = order.begins[c] + members;
  }
  if (order.begins[kClasses] != entries) {
    return DataLoss("the classes hold {} entries, expected {}", order.begins[kClasses], entries);
  }
  scan_.select(block, order.begins, order.positions.data());
  MarkTiles(words, order.positions);
  const auto touched = static_cast<size_t>(std::count(touched_.begin(), touched_.end(), 1));
  if (MapPays(tiles, tiles - touched, entries) != (used > 0) || (used > 0 && used != touched)) {
    return DataLoss("a map of {} tiles, where {} of {} have changes", used, touched, tiles);
  }
  return OkStatus();
}

}  // namespace pulse
