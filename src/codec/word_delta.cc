#include "codec/word_delta.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "codec/container.h"
#include "codec/gaps.h"
#include "codec/sections.h"
#include "codec/steps.h"
#include "codec/word_blocks.h"

namespace pulse {
namespace {

static_assert(kWordDeltaBlockElements == kContainerBlockElements);

// Payload of a block: gaps, codes, and where there are escapes their word_bytes byte planes.
class BlockEncoder {
 public:
  BlockEncoder(const kernels::KernelTable& kernels, size_t word_bytes, size_t block_words)
      : kernels_(kernels), word_bytes_(word_bytes), positions_(block_words) {}

  // Appends the payload to `out` and returns the number of changed words; nothing for none.
  uint32_t Encode(ByteView before, ByteView after, Bytes& out) {
    const size_t changed = kernels_.diff(before, after, word_bytes_, positions_.data());
    const std::span<const uint32_t> positions(positions_.data(), changed);
    EncodeGaps(positions, gaps_);
    EncodeSteps(before, after, word_bytes_, positions, steps_);
    writer_.Write(gaps_, out);
    writer_.Write(steps_.codes, out);
    if (!steps_.escapes.empty()) writer_.WritePlanes(steps_.escapes, word_bytes_, out);
    return static_cast<uint32_t>(changed);
  }

 private:
  const kernels::KernelTable& kernels_;
  const size_t word_bytes_;
  std::vector<uint32_t> positions_;
  Bytes gaps_;
  CodedSteps steps_;
  SectionWriter writer_;
};

class BlockApplier {
 public:
  BlockApplier(const kernels::KernelTable& kernels, size_t word_bytes)
      : kernels_(kernels), word_bytes_(word_bytes) {}

  // words: the block before the change; moved in place.
  Status Apply(const ContainerView::Block& block, ByteSpan words) {
    if (block.entries == 0) return OkStatus();
    const size_t changed = block.entries;
    reader_.Start(block.payload);
    PULSE_ASSIGN_OR_RETURN(const ByteView gaps,
                           reader_.Read(changed, MaxGapBytes(changed, block.elements)));
    positions_.resize(changed);
    PULSE_RETURN_IF_ERROR(DecodeGaps(gaps, block.elements, positions_));
    PULSE_ASSIGN_OR_RETURN(const ByteView codes,
                           reader_.Read(CodeBytes(changed), CodeBytes(changed)));
    codes_.assign(codes.begin(), codes.end());
    PULSE_ASSIGN_OR_RETURN(const size_t escapes, CountEscapes(codes_, changed));
    escapes_.resize(escapes * word_bytes_);
    if (escapes > 0) PULSE_RETURN_IF_ERROR(reader_.ReadPlanes(word_bytes_, escapes_));
    PULSE_RETURN_IF_ERROR(reader_.Finish());
    steps_.resize(changed * word_bytes_);
    PULSE_RETURN_IF_ERROR(DecodeSteps(codes_, escapes_, word_bytes_, steps_));
    kernels_.apply(words, word_bytes_, positions_, steps_);
    return OkStatus();
  }

 private:
  const kernels::KernelTable& kernels_;
  const size_t word_bytes_;
  SectionReader reader_;
  std::vector<uint32_t> positions_;
  Bytes codes_, escapes_, steps_;
};

}  // namespace

StatusOr<WordDelta> EncodeWordDelta(const kernels::KernelTable& kernels, ByteView before,
                                    ByteView after, size_t word_bytes) {
  return EncodeWordBlocks(CodecId::kWordDeltaFast, "word delta", before, after, word_bytes,
                          [&](size_t words) { return BlockEncoder(kernels, word_bytes, words); });
}

Status ApplyWordDelta(const kernels::KernelTable& kernels, ByteView delta, ByteView before,
                      size_t word_bytes, ByteSpan after) {
  return ApplyWordBlocks(CodecId::kWordDeltaFast, "word delta", delta, before, word_bytes, after,
                         BlockApplier(kernels, word_bytes));
}

}  // namespace pulse
