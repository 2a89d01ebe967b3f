#include "codec/class_positions.h"

#include <algorithm>
#include <cstring>

#include "codec/rice_set.h"
#include "kernels/class_rank/class_rank_math.h"

namespace pulse {
namespace {

using kernels::kRankClasses;

constexpr size_t kTileWords = 2048;

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

// The tiles that hold some of `positions`, ascending.
std::vector<uint32_t> TouchedTiles(std::span<const uint32_t> positions) {
  std::vector<uint32_t> tiles;
  for (const uint32_t position : positions) {
    const auto tile = static_cast<uint32_t>(position / kTileWords);
    if (tiles.empty() || tiles.back() != tile) tiles.push_back(tile);
  }
  return tiles;
}

template <typename Word>
uint32_t TopOf(ByteView words, const kernels::WordLayout& layout) {
  std::array<uint32_t, 2048> histogram = {};
  const size_t count = words.size() / sizeof(Word);
  // Odd, so that it walks through all columns of rows of any usual length: an even one would meet
  // the same few columns in every row, outliers or not.
  const size_t stride = (count / kSampleWords) | 1;
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

void ClassPositionCoder::Classify(ByteView before) {
  classes_.resize(before.size() / layout_.word_bytes);
  kernel_.classify_words(before, layout_, TopExponent(before, layout_), classes_);
}

// Keeps the classes of `tiles` (ascending) alone.
void ClassPositionCoder::Compact(std::span<const uint32_t> tiles) {
  size_t kept = 0;
  for (const uint32_t tile : tiles) {
    const size_t begin = tile * kTileWords;
    const size_t length = std::min(kTileWords, classes_.size() - begin);
    std::memmove(&classes_[kept], &classes_[begin], length);
    kept += length;
  }
  classes_.resize(kept);
}

// positions: into classes_.
void ClassPositionCoder::Order(std::span<const uint32_t> positions, ClassOrder& order) const {
  order.begins = {};
  for (const uint32_t position : positions) ++order.begins[classes_[position] + size_t{1}];
  for (size_t c = 0; c < kRankClasses; ++c) order.begins[c + 1] += order.begins[c];
  order.slots.resize(positions.size());
  auto next = order.begins;
  for (size_t i = 0; i < positions.size(); ++i) {
    order.slots[i] = next[classes_[positions[i]]]++;
  }
}

void ClassPositionCoder::Encode(ByteView before, std::span<const uint32_t> positions,
                                StreamsWriter& out, ClassOrder& order) {
  Classify(before);
  const std::vector<uint32_t> touched = TouchedTiles(positions);
  const size_t tiles = TilesOf(classes_.size());
  const bool mapped = MapPays(tiles, tiles - touched.size(), positions.size());
  out.PutNumber(mapped ? static_cast<uint32_t>(touched.size()) : 0);
  if (mapped) {
    EncodeSet(static_cast<uint32_t>(tiles), touched, out);
    Compact(touched);
    moved_.clear();
    size_t index = 0;
    for (const uint32_t position : positions) {
      while (touched[index] != position / kTileWords) ++index;
      moved_.push_back(static_cast<uint32_t>(index * kTileWords + position % kTileWords));
    }
    positions = moved_;
  }
  ranks_.resize(positions.size());
  const kernels::ClassCounts counts = kernel_.rank(classes_, positions, ranks_.data());
  Order(positions, order);
  by_class_.resize(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) by_class_[order.slots[i]] = ranks_[i];
  for (size_t c = 0; c < kRankClasses; ++c) {
    if (counts[c] == 0) continue;
    const uint32_t members = order.begins[c + 1] - order.begins[c];
    out.PutNumber(members);
    EncodeSet(counts[c], std::span(by_class_).subspan(order.begins[c], members), out);
  }
}

Status ClassPositionCoder::Decode(ByteView before, StreamsReader& in, std::span<uint32_t> positions,
                                  ClassOrder& order) {
  Classify(before);
  const auto tiles = static_cast<uint32_t>(TilesOf(classes_.size()));
  PULSE_ASSIGN_OR_RETURN(const uint32_t mapped, in.GetNumber(tiles));
  std::vector<uint32_t> active(mapped);
  if (mapped > 0) {
    PULSE_RETURN_IF_ERROR(DecodeSet(tiles, in, active));
    Compact(active);
  }
  const kernels::ClassCounts counts = kernel_.rank(classes_, {}, nullptr);
  kernels::ClassCounts entries = {};
  by_class_.resize(positions.size());
  uint32_t begin = 0;
  for (size_t c = 0; c < kRankClasses; ++c) {
    if (counts[c] == 0) continue;
    const auto left = static_cast<uint32_t>(positions.size() - begin);
    PULSE_ASSIGN_OR_RETURN(entries[c], in.GetNumber(std::min(counts[c], left)));
    PULSE_RETURN_IF_ERROR(
        DecodeSet(counts[c], in, std::span(by_class_).subspan(begin, entries[c])));
    begin += entries[c];
  }
  if (begin != positions.size()) {
    return DataLoss("the classes hold {} entries, expected {}", begin, positions.size());
  }
  kernel_.select(classes_, entries, by_class_.data(), positions.data());
  Order(positions, order);
  if (mapped > 0) {
    for (uint32_t& position : positions) {
      position =
          static_cast<uint32_t>(active[position / kTileWords] * kTileWords + position % kTileWords);
    }
  }
  const size_t touched = TouchedTiles(positions).size();
  if (MapPays(tiles, tiles - touched, positions.size()) ? mapped != touched : mapped != 0) {
    return DataLoss("a map of {} tiles, where {} of {} have changes", mapped, touched, tiles);
  }
  return OkStatus();
}

}  // namespace pulse
