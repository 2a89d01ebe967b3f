#include "codec/small_delta.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "codec/block_streams.h"
#include "codec/class_positions.h"
#include "codec/class_steps.h"
#include "codec/container.h"
#include "codec/word_blocks.h"

namespace pulse {
namespace {

static_assert(kWordDeltaBlockElements == kContainerBlockElements);

constexpr std::string_view kWhat = "small delta";

template <typename Word>
void TakeSteps(ByteView before, ByteView after, std::span<const uint32_t> positions,
               uint64_t* steps) {
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t at = positions[i] * sizeof(Word);
    steps[i] = static_cast<Word>(LoadLittle<Word>(after.data() + at) -
                                 LoadLittle<Word>(before.data() + at));
  }
}

class BlockEncoder {
 public:
  BlockEncoder(const kernels::KernelTable& kernels, DType dtype, size_t block_words)
      : kernels_(kernels),
        word_bytes_(SizeOf(dtype)),
        positions_(std::make_unique_for_overwrite<uint32_t[]>(block_words)),
        steps_(std::make_unique_for_overwrite<uint64_t[]>(block_words)),
        position_coder_(kernels.class_rank, LayoutOf(dtype), block_words),
        step_coder_(word_bytes_) {}

  // Appends the payload to `out` and returns the number of changed words; nothing for none.
  uint32_t Encode(ByteView before, ByteView after, Bytes& out) {
    const size_t changed = Scan(before, after);
    if (changed == 0) return 0;
    const std::span<const uint32_t> positions(positions_.get(), changed);
    streams_.Clear();
    position_coder_.Encode(before, positions, streams_);
    by_class_.resize(changed);
    const std::span<const uint32_t> slots = position_coder_.slots();
    for (size_t i = 0; i < changed; ++i) by_class_[slots[i]] = steps_[i];
    step_coder_.Encode(position_coder_.begins(), by_class_, streams_);
    streams_.Finish(out);
    return static_cast<uint32_t>(changed);
  }

 private:
  // Fills positions_ and steps_ and classifies the words, chunk by chunk, so that they are read
  // from memory once; up to the first change nothing is classified. Returns the number of changed
  // words.
  size_t Scan(ByteView before, ByteView after) {
    const size_t chunk_bytes = ClassPositionCoder::kChunkWords * word_bytes_;
    size_t changed = 0, classified = 0;
    position_coder_.Start(before.size() / word_bytes_);
    for (size_t at = 0; at < before.size(); at += chunk_bytes) {
      const size_t length = std::min(chunk_bytes, before.size() - at);
      const ByteView old_words = before.subspan(at, length), new_words = after.subspan(at, length);
      uint32_t* const found = &positions_[changed];
      const size_t count = kernels_.diff(old_words, new_words, word_bytes_, found);
      Take(old_words, new_words, {found, count}, &steps_[changed]);
      const auto first = static_cast<uint32_t>(at / word_bytes_);
      for (size_t i = 0; i < count; ++i) found[i] += first;
      changed += count;
      if (changed == 0) continue;
      for (; classified < at + length; classified += chunk_bytes) {
        position_coder_.Add(
            before.subspan(classified, std::min(chunk_bytes, before.size() - classified)));
      }
    }
    return changed;
  }

  void Take(ByteView before, ByteView after, std::span<const uint32_t> positions,
            uint64_t* steps) const {
    switch (word_bytes_) {
      case 1:
        return TakeSteps<uint8_t>(before, after, positions, steps);
      case 2:
        return TakeSteps<uint16_t>(before, after, positions, steps);
      case 4:
        return TakeSteps<uint32_t>(before, after, positions, steps);
      default:
        return TakeSteps<uint64_t>(before, after, positions, steps);
    }
  }

  const kernels::KernelTable& kernels_;
  const size_t word_bytes_;
  std::unique_ptr<uint32_t[]> positions_;  // room for a block, mostly untouched
  std::unique_ptr<uint64_t[]> steps_;
  ClassPositionCoder position_coder_;
  ClassStepCoder step_coder_;
  std::vector<uint64_t> by_class_;
  StreamsWriter streams_;
};

class BlockApplier {
 public:
  BlockApplier(const kernels::KernelTable& kernels, DType dtype, size_t block_words)
      : kernels_(kernels),
        word_bytes_(SizeOf(dtype)),
        position_coder_(kernels.class_rank, LayoutOf(dtype), block_words),
        step_coder_(word_bytes_) {}

  // words: the block before the change; moved in place.
  Status Apply(const ContainerView::Block& block, ByteSpan words) {
    if (block.entries == 0) return OkStatus();
    PULSE_ASSIGN_OR_RETURN(StreamsReader streams, StreamsReader::Open(block.payload));
    positions_.resize(block.entries);
    PULSE_RETURN_IF_ERROR(position_coder_.Decode(words, streams, positions_));
    steps_.resize(block.entries);
    PULSE_RETURN_IF_ERROR(step_coder_.Decode(position_coder_.begins(), streams, steps_));
    PULSE_RETURN_IF_ERROR(streams.Finish());
    step_bytes_.resize(block.entries * word_bytes_);
    for (size_t i = 0; i < block.entries; ++i) {
      std::memcpy(&step_bytes_[i * word_bytes_], &steps_[i], word_bytes_);
    }
    kernels_.apply(words, word_bytes_, positions_, step_bytes_);
    return OkStatus();
  }

 private:
  const kernels::KernelTable& kernels_;
  const size_t word_bytes_;
  ClassPositionCoder position_coder_;
  ClassStepCoder step_coder_;
  std::vector<uint32_t> positions_;
  std::vector<uint64_t> steps_;
  Bytes step_bytes_;
};

}  // namespace

StatusOr<WordDelta> EncodeSmallDelta(const kernels::KernelTable& kernels, ByteView before,
                                     ByteView after, DType dtype) {
  return EncodeWordBlocks(CodecId::kWordDeltaSmall, kWhat, before, after, SizeOf(dtype),
                          [&](size_t words) { return BlockEncoder(kernels, dtype, words); });
}

Status ApplySmallDelta(const kernels::KernelTable& kernels, ByteView delta, ByteView before,
                       DType dtype, ByteSpan after) {
  const size_t words = std::min<size_t>(before.size() / SizeOf(dtype), kContainerBlockElements);
  return ApplyWordBlocks(CodecId::kWordDeltaSmall, kWhat, delta, before, SizeOf(dtype), after,
                         BlockApplier(kernels, dtype, words));
}

}  // namespace pulse
