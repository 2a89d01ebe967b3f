#include "codec/class_positions.h"

#include <algorithm>

#include "codec/rice_set.h"
#include "kernels/class_rank/class_rank_math.h"

namespace pulse {
namespace {

using kernels::ClassCounts;
using kernels::kRankClasses;
using kernels::kTileWords;
using kernels::TileCounts;
using kernels::TilesOf;

constexpr size_t kSampleWords = 4096;  // 0.4 % of a block
constexpr size_t kOutliersPerSample = 1024;

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

void ExponentSample::Start(size_t block_words, const kernels::WordLayout& layout) {
  layout_ = layout;
  // Odd, so that it walks through all columns of rows of any usual length: an even one would meet
  // the same few columns in every row, outliers or not.
  stride_ = (block_words / kSampleWords) | 1;
  skip_ = 0;
  sampled_ = 0;
  std::fill_n(histogram_.begin(), layout.exponent_mask + size_t{1}, 0);
}

template <typename Word>
void ExponentSample::Count(ByteView words) {
  const size_t count = words.size() / sizeof(Word);
  size_t i = skip_;
  for (; i < count; i += stride_, ++sampled_) {
    ++histogram_[kernels::ExponentOf(LoadLittle<Word>(words.data() + i * sizeof(Word)), layout_)];
  }
  skip_ = i - count;
}

void ExponentSample::Add(ByteView words) {
  switch (layout_.word_bytes) {
    case 1:
      return Count<uint8_t>(words);
    case 2:
      return Count<uint16_t>(words);
    case 4:
      return Count<uint32_t>(words);
    default:
      return Count<uint64_t>(words);
  }
}

uint32_t ExponentSample::Top() const {
  uint32_t top = layout_.exponent_mask;
  for (size_t above = histogram_[top]; top > 0 && above <= sampled_ / kOutliersPerSample;) {
    above += histogram_[--top];
  }
  return top;
}

ClassPositionCoder::ClassPositionCoder(const kernels::ClassRankBody& kernel,
                                       const kernels::WordLayout& layout, size_t most_words)
    : kernel_(kernel),
      layout_(layout),
      tiles_(std::make_unique_for_overwrite<kernels::ClassTile[]>(TilesOf(most_words))),
      counts_(std::make_unique_for_overwrite<TileCounts[]>(TilesOf(most_words))),
      ranks_(std::make_unique_for_overwrite<uint32_t[]>(most_words)),
      by_class_(std::make_unique_for_overwrite<uint32_t[]>(most_words)),
      slots_(std::make_unique_for_overwrite<uint32_t[]>(most_words)),
      classes_(std::make_unique_for_overwrite<uint8_t[]>(most_words)) {}

void ClassPositionCoder::Start(size_t block_words) {
  sample_.Start(block_words, layout_);
  tiles_count_ = TilesOf(block_words);
  classified_ = 0;
}

void ClassPositionCoder::Classify(ByteView before, size_t first_tile) {
  const size_t tiles = TilesOf(before.size() / layout_.word_bytes);
  kernel_.classify(before, layout_, *top_, std::span(&tiles_[first_tile], tiles),
                   std::span(&counts_[first_tile], tiles));
}

void ClassPositionCoder::Add(ByteView before) {
  // Sampled when they have been classified, and so are in cache; but for the very first ones, whose
  // own sample is the guess.
  const bool first = !top_.has_value();
  if (first) {
    sample_.Add(before);
    top_ = sample_.Top();
  }
  Classify(before, classified_);
  if (!first) sample_.Add(before);
  classified_ += TilesOf(before.size() / layout_.word_bytes);
}

// The guess was that the block is like the one before it, or like its own first words.
void ClassPositionCoder::FinishClasses(ByteView before) {
  const uint32_t top = sample_.Top();
  if (top == top_) return;
  top_ = top;
  Classify(before, 0);
}

// tiles: ascending.
void ClassPositionCoder::LeaveOutAllBut(std::span<const uint32_t> tiles) {
  size_t next = 0;
  for (const uint32_t tile : tiles) {
    std::fill(&counts_[next], &counts_[tile], TileCounts{});
    next = tile + size_t{1};
  }
  std::fill(&counts_[next], &counts_[tiles_count_], TileCounts{});
}

// From classes_ and ranks_.
void ClassPositionCoder::SortByClass(size_t entries) {
  begins_ = {};
  for (size_t i = 0; i < entries; ++i) ++begins_[classes_[i] + size_t{1}];
  for (size_t c = 0; c < kRankClasses; ++c) begins_[c + 1] += begins_[c];
  ClassBegins next = begins_;
  for (size_t i = 0; i < entries; ++i) {
    const uint32_t slot = next[classes_[i]]++;
    slots_[i] = slot;
    by_class_[slot] = ranks_[i];
  }
}

void ClassPositionCoder::Encode(ByteView before, std::span<const uint32_t> positions,
                                StreamsWriter& out) {
  FinishClasses(before);
  const std::vector<uint32_t> touched = TouchedTiles(positions);
  const bool mapped = MapPays(tiles_count_, tiles_count_ - touched.size(), positions.size());
  out.PutNumber(mapped ? static_cast<uint32_t>(touched.size()) : 0);
  if (mapped) {
    EncodeSet(static_cast<uint32_t>(tiles_count_), touched, out);
    LeaveOutAllBut(touched);
  }
  kernel_.rank({tiles_.get(), tiles_count_}, {counts_.get(), tiles_count_}, positions,
               classes_.get(), ranks_.get());
  SortByClass(positions.size());
  const ClassCounts sizes = kernels::SumOfCounts({counts_.get(), tiles_count_});
  for (size_t c = 0; c < kRankClasses; ++c) {
    if (sizes[c] == 0) continue;
    const uint32_t members = begins_[c + 1] - begins_[c];
    out.PutNumber(members);
    EncodeSet(sizes[c], std::span(&by_class_[begins_[c]], members), out);
  }
}

// The one map for these positions, whose tiles are `active`; all are, where there is no map.
Status ClassPositionCoder::CheckMap(std::span<const uint32_t> active,
                                    std::span<const uint32_t> positions) {
  touched_.assign(tiles_count_, false);
  size_t touched = 0;
  for (const uint32_t position : positions) {
    const size_t tile = position / kTileWords;
    touched += touched_[tile] ? 0 : 1;
    touched_[tile] = true;
  }
  const bool pays = MapPays(tiles_count_, tiles_count_ - touched, positions.size());
  if (pays ? active.size() != touched : !active.empty()) {
    return DataLoss("a map of {} tiles, where {} of {} have changes", active.size(), touched,
                    tiles_count_);
  }
  return OkStatus();
}

Status ClassPositionCoder::Decode(ByteView before, StreamsReader& in,
                                  std::span<uint32_t> positions) {
  const size_t chunk_bytes = kChunkWords * layout_.word_bytes;
  Start(before.size() / layout_.word_bytes);
  for (size_t at = 0; at < before.size(); at += chunk_bytes) {
    Add(before.subspan(at, std::min(chunk_bytes, before.size() - at)));
  }
  FinishClasses(before);
  const auto tiles = static_cast<uint32_t>(tiles_count_);
  PULSE_ASSIGN_OR_RETURN(const uint32_t mapped, in.GetNumber(tiles));
  std::vector<uint32_t> active(mapped);
  if (mapped > 0) {
    PULSE_RETURN_IF_ERROR(DecodeSet(tiles, in, active));
    LeaveOutAllBut(active);
  }
  const ClassCounts sizes = kernels::SumOfCounts({counts_.get(), tiles_count_});
  ClassCounts entries = {};
  uint32_t begin = 0;
  for (size_t c = 0; c < kRankClasses; ++c) {
    begins_[c] = begin;
    if (sizes[c] == 0) continue;
    const auto left = static_cast<uint32_t>(positions.size() - begin);
    PULSE_ASSIGN_OR_RETURN(entries[c], in.GetNumber(std::min(sizes[c], left)));
    PULSE_RETURN_IF_ERROR(DecodeSet(sizes[c], in, std::span(&by_class_[begin], entries[c])));
    begin += entries[c];
  }
  begins_.back() = begin;
  if (begin != positions.size()) {
    return DataLoss("the classes hold {} entries, expected {}", begin, positions.size());
  }
  kernel_.select({tiles_.get(), tiles_count_}, {counts_.get(), tiles_count_}, entries,
                 by_class_.get(), positions.data());
  return CheckMap(active, positions);
}

}  // namespace pulse
