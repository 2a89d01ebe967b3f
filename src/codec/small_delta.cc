#include "codec/small_delta.h"

#include <algorithm>
#include <cstring>
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
               std::span<const uint32_t> slots, std::span<uint64_t> steps) {
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t at = positions[i] * sizeof(Word);
    steps[slots[i]] = static_cast<Word>(LoadLittle<Word>(after.data() + at) -
                                        LoadLittle<Word>(before.data() + at));
  }
}

class BlockEncoder {
 public:
  BlockEncoder(const kernels::KernelTable& kernels, DType dtype, size_t block_words)
      : kernels_(kernels),
        word_bytes_(SizeOf(dtype)),
        positions_(block_words),
        position_coder_(kernels.class_rank, LayoutOf(dtype)),
        step_coder_(word_bytes_) {}

  // Appends the payload to `out` and returns the number of changed words; nothing for none.
  uint32_t Encode(ByteView before, ByteView after, Bytes& out) {
    const size_t changed = kernels_.diff(before, after, word_bytes_, positions_.data());
    if (changed == 0) return 0;
    const std::span<const uint32_t> positions(positions_.data(), changed);
    streams_.Clear();
    position_coder_.Encode(before, positions, streams_, order_);
    steps_.resize(changed);
    Take(before, after, positions);
    step_coder_.Encode(order_, steps_, streams_);
    streams_.Finish(out);
    return static_cast<uint32_t>(changed);
  }

 private:
  void Take(ByteView before, ByteView after, std::span<const uint32_t> positions) {
    switch (word_bytes_) {
      case 1:
        return TakeSteps<uint8_t>(before, after, positions, order_.slots, steps_);
      case 2:
        return TakeSteps<uint16_t>(before, after, positions, order_.slots, steps_);
      case 4:
        return TakeSteps<uint32_t>(before, after, positions, order_.slots, steps_);
      default:
        return TakeSteps<uint64_t>(before, after, positions, order_.slots, steps_);
    }
  }

  const kernels::KernelTable& kernels_;
  const size_t word_bytes_;
  std::vector<uint32_t> positions_;
  ClassPositionCoder position_coder_;
  ClassStepCoder step_coder_;
  ClassOrder order_;
  std::vector<uint64_t> steps_;
  StreamsWriter streams_;
};

class BlockApplier {
 public:
  BlockApplier(const kernels::KernelTable& kernels, DType dtype)
      : kernels_(kernels),
        word_bytes_(SizeOf(dtype)),
        position_coder_(kernels.class_rank, LayoutOf(dtype)),
        step_coder_(word_bytes_) {}

  // words: the block before the change; moved in place.
  Status Apply(const ContainerView::Block& block, ByteSpan words) {
    if (block.entries == 0) return OkStatus();
    PULSE_ASSIGN_OR_RETURN(StreamsReader streams, StreamsReader::Open(block.payload));
    positions_.resize(block.entries);
    PULSE_RETURN_IF_ERROR(position_coder_.Decode(words, streams, positions_, order_));
    by_class_.resize(block.entries);
    PULSE_RETURN_IF_ERROR(step_coder_.Decode(order_, streams, by_class_));
    PULSE_RETURN_IF_ERROR(streams.Finish());
    steps_.resize(block.entries * word_bytes_);
    for (size_t i = 0; i < block.entries; ++i) {
      std::memcpy(&steps_[i * word_bytes_], &by_class_[order_.slots[i]], word_bytes_);
    }
    kernels_.apply(words, word_bytes_, positions_, steps_);
    return OkStatus();
  }

 private:
  const kernels::KernelTable& kernels_;
  const size_t word_bytes_;
  ClassPositionCoder position_coder_;
  ClassStepCoder step_coder_;
  ClassOrder order_;
  std::vector<uint32_t> positions_;
  std::vector<uint64_t> by_class_;
  Bytes steps_;
};

}  // namespace

StatusOr<WordDelta> EncodeSmallDelta(const kernels::KernelTable& kernels, ByteView before,
                                     ByteView after, DType dtype) {
  return EncodeWordBlocks(CodecId::kWordDeltaSmall, kWhat, before, after, SizeOf(dtype),
                          [&](size_t words) { return BlockEncoder(kernels, dtype, words); });
}

Status ApplySmallDelta(const kernels::KernelTable& kernels, ByteView delta, ByteView before,
                       DType dtype, ByteSpan after) {
  return ApplyWordBlocks(CodecId::kWordDeltaSmall, kWhat, delta, before, SizeOf(dtype), after,
                         BlockApplier(kernels, dtype));
}

}  // namespace pulse
