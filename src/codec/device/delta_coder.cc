#include "codec/device/delta_coder.h"

#include <cstring>

#include "codec/class_positions.h"
#include "codec/device/block_coding.h"
#include "codec/gaps.h"
#include "codec/sections.h"
#include "codec/steps.h"

namespace pulse {
namespace {

static_assert(kContainerBlockElements == kernels::kScatterBlockElements);
constexpr uint64_t kBlock = kContainerBlockElements;

kernels::ExponentLayout ExponentsOf(DType dtype) {
  const kernels::WordLayout layout = LayoutOf(dtype);
  return {static_cast<uint32_t>(layout.exponent_shift), layout.exponent_mask};
}

// The launchers of a word's width.
template <typename Word>
const auto& Of(const auto& of16, const auto& of32) {
  if constexpr (sizeof(Word) == 2) {
    return of16;
  } else {
    return of32;
  }
}

}  // namespace

StatusOr<std::vector<WordDelta>> DeviceDeltaCoder::Encode(CodecId codec, DType dtype,
                                                          DeviceSpan<const uint8_t> before,
                                                          DeviceSpan<const uint8_t> after,
                                                          uint64_t piece_blocks,
                                                          Deadline deadline) {
  const uint64_t width = SizeOf(dtype);
  if (dtype != DType::kBF16 && dtype != DType::kF32) {
    return Unimplemented("deltas of {} words on a device", NameOf(dtype));
  }
  if (before.size != after.size || before.size % width != 0) {
    return InvalidArgument("{} bytes before and {} after, expected equal multiples of {}",
                           before.size, after.size, width);
  }
  std::vector<WordDelta> pieces;
  // Ranges of whole pieces.
  const uint64_t range_bytes =
      std::max(range_blocks_ / piece_blocks, uint64_t{1}) * piece_blocks * kBlock * width;
  for (uint64_t at = 0; at < before.size; at += range_bytes) {
    const uint64_t bytes = std::min(range_bytes, before.size - at);
    const auto was = before.subspan(at, bytes), is = after.subspan(at, bytes);
    if (width == 2) {
      PULSE_RETURN_IF_ERROR(EncodeRange<uint16_t>(
          codec, dtype, {reinterpret_cast<const uint16_t*>(was.data), bytes / 2},
          {reinterpret_cast<const uint16_t*>(is.data), bytes / 2}, piece_blocks, pieces, deadline));
    } else {
      PULSE_RETURN_IF_ERROR(EncodeRange<uint32_t>(
          codec, dtype, {reinterpret_cast<const uint32_t*>(was.data), bytes / 4},
          {reinterpret_cast<const uint32_t*>(is.data), bytes / 4}, piece_blocks, pieces, deadline));
    }
  }
  return pieces;
}

template <typename Word>
Status DeviceDeltaCoder::EncodeRange(CodecId codec, DType dtype, DeviceSpan<const Word> before,
                                     DeviceSpan<const Word> after, uint64_t piece_blocks,
                                     std::vector<WordDelta>& out, Deadline deadline) {
  const DeviceDriver& driver = work_.driver();
  const uint64_t words = before.size, blocks = kernels::CeilDiv(words, kBlock);
  PULSE_ASSIGN_OR_RETURN(const auto starts_room, starts_.Get<uint64_t>(driver, blocks + 1));
  PULSE_ASSIGN_OR_RETURN(const auto positions, positions_.Get<uint32_t>(driver, words));
  PULSE_ASSIGN_OR_RETURN(const auto compact,
                         compact_.Get<uint8_t>(driver, kernels::CompactScratchBytes(words)));
  PULSE_RETURN_IF_ERROR(
      work_.Did(kernels_.diff(DeviceBytes(before), DeviceBytes(after), sizeof(Word),
                              {starts_room, positions, compact}, work_.stream()),
                "comparing two views"));
  std::vector<uint64_t> starts(blocks + 1);
  PULSE_RETURN_IF_ERROR(work_.Down<uint64_t>(starts_room, std::span(starts), deadline));
  PULSE_ASSIGN_OR_RETURN(const std::vector<Bytes> payloads,
                         codec == CodecId::kWordDeltaSmall
                             ? SmallPayloads<Word>(dtype, before, after, starts, deadline)
                             : FastPayloads<Word>(before, after, starts, deadline));
  for (uint64_t first = 0; first < blocks; first += piece_blocks) {
    const uint64_t last = std::min(first + piece_blocks, blocks);
    ContainerWriter writer({.codec = codec,
                            .word_bytes = sizeof(Word),
                            .elements = std::min(last * kBlock, words) - first * kBlock});
    for (uint64_t b = first; b < last; ++b) {
      writer.bytes().insert(writer.bytes().end(), payloads[b].begin(), payloads[b].end());
      writer.CloseBlock(static_cast<uint32_t>(starts[b + 1] - starts[b]));
    }
    out.push_back({.bytes = writer.Finish(), .changed = starts[last] - starts[first]});
  }
  return OkStatus();
}

StatusOr<std::vector<Bytes>> DeviceDeltaCoder::Download(DeviceSpan<const uint8_t> from,
                                                        std::span<const uint64_t> offsets,
                                                        Deadline deadline) {
  Bytes all(offsets.back());
  PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(from.first(all.size()), std::span(all), deadline));
  std::vector<Bytes> blocks;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    blocks.emplace_back(all.begin() + static_cast<ptrdiff_t>(offsets[b]),
                        all.begin() + static_cast<ptrdiff_t>(offsets[b + 1]));
  }
  return blocks;
}

template <typename Word>
StatusOr<std::vector<Bytes>> DeviceDeltaCoder::SmallPayloads(DType dtype,
                                                             DeviceSpan<const Word> before,
                                                             DeviceSpan<const Word> after,
                                                             std::span<const uint64_t> starts,
                                                             Deadline deadline) {
  const DeviceDriver& driver = work_.driver();
  const uint64_t blocks = starts.size() - 1, most = MostEntries(starts);
  if (most == 0) return std::vector<Bytes>(blocks);
  PULSE_ASSIGN_OR_RETURN(
      const auto scratch,
      scratch_.Get<uint32_t>(driver, kernels::TeamsFor(blocks) * kernels::SmallDeltaScratch(most)));
  PULSE_ASSIGN_OR_RETURN(const auto streams, streams_.Get<uint32_t>(driver, 3 * blocks));
  PULSE_ASSIGN_OR_RETURN(const auto sizes_room, sizes_.Get<uint32_t>(driver, blocks));
  kernels::SmallDeltaEncodeOp<Word> op{};
  op.before = before.data;
  op.after = after.data;
  op.elements = before.size;
  op.layout = ExponentsOf(dtype);
  op.starts = reinterpret_cast<const uint64_t*>(starts_.Get<uint64_t>(driver, blocks + 1)->data);
  op.positions = positions_.Get<uint32_t>(driver, before.size)->data;
  op.streams = streams.data;
  op.sizes = sizes_room.data;
  const auto& encode = Of<Word>(kernels_.small_delta_encode16, kernels_.small_delta_encode32);
  PULSE_RETURN_IF_ERROR(
      work_.Did(encode(op, blocks, most, scratch, work_.stream()), "measuring a delta"));
  std::vector<uint32_t> sizes(blocks);
  PULSE_RETURN_IF_ERROR(work_.Down<uint32_t>(sizes_room, std::span(sizes), deadline));
  const std::vector<uint64_t> offsets = OffsetsOf(std::span<const uint32_t>(sizes));
  PULSE_ASSIGN_OR_RETURN(const auto out, out_.Get<uint8_t>(driver, offsets.back() / 4 * 4 + 12));
  PULSE_RETURN_IF_ERROR(work_.Zero(out));
  PULSE_ASSIGN_OR_RETURN(const auto places, offsets_.Get<uint64_t>(driver, blocks + 1));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint64_t>(offsets), places, deadline));
  op.offsets = places.data;
  op.out = reinterpret_cast<uint32_t*>(out.data);
  PULSE_RETURN_IF_ERROR(
      work_.Did(encode(op, blocks, most, scratch, work_.stream()), "encoding a delta"));
  return Download(out, offsets, deadline);
}

template <typename Word>
StatusOr<std::vector<Bytes>> DeviceDeltaCoder::FastPayloads(DeviceSpan<const Word> before,
                                                            DeviceSpan<const Word> after,
                                                            std::span<const uint64_t> starts,
                                                            Deadline deadline) {
  const DeviceDriver& driver = work_.driver();
  const uint64_t blocks = starts.size() - 1;
  std::vector<Bytes> payloads(blocks);
  if (starts.back() == 0) return payloads;
  PULSE_ASSIGN_OR_RETURN(const auto sizes_room, sizes_.Get<uint32_t>(driver, 2 * blocks));
  kernels::WordStepsEncodeOp<Word> op{};
  op.before = before.data;
  op.after = after.data;
  op.starts = starts_.Get<uint64_t>(driver, blocks + 1)->data;
  op.positions = positions_.Get<uint32_t>(driver, before.size)->data;
  op.sizes = sizes_room.data;
  const auto& encode = Of<Word>(kernels_.word_steps_encode16, kernels_.word_steps_encode32);
  PULSE_RETURN_IF_ERROR(work_.Did(encode(op, blocks, work_.stream()), "measuring a delta"));
  std::vector<uint32_t> sizes(2 * blocks);
  PULSE_RETURN_IF_ERROR(work_.Down<uint32_t>(sizes_room, std::span(sizes), deadline));
  std::vector<uint64_t> plain;
  for (uint64_t b = 0; b < blocks; ++b) {
    const auto entries = static_cast<uint32_t>(starts[b + 1] - starts[b]);
    plain.push_back(sizes[2 * b] + kernels::StepCodeBytes(entries) +
                    uint64_t{sizes[2 * b + 1]} * sizeof(Word));
  }
  const std::vector<uint64_t> offsets = OffsetsOf(std::span<const uint64_t>(plain));
  PULSE_ASSIGN_OR_RETURN(const auto out, out_.Get<uint8_t>(driver, offsets.back()));
  PULSE_ASSIGN_OR_RETURN(const auto places, offsets_.Get<uint64_t>(driver, blocks + 1));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint64_t>(offsets), places, deadline));
  op.offsets = places.data;
  op.out = out.data;
  PULSE_RETURN_IF_ERROR(work_.Did(encode(op, blocks, work_.stream()), "encoding a delta"));
  PULSE_ASSIGN_OR_RETURN(const std::vector<Bytes> sections, Download(out, offsets, deadline));
  SectionWriter writer;
  for (uint64_t b = 0; b < blocks; ++b) {
    const auto entries = static_cast<uint32_t>(starts[b + 1] - starts[b]);
    ByteView rest = sections[b];
    const auto write = [&](uint64_t bytes) {
      writer.Write(rest.first(bytes), payloads[b]);
      rest = rest.subspan(bytes);
    };
    write(sizes[2 * b]);
    write(kernels::StepCodeBytes(entries));
    for (size_t plane = 0; plane < sizeof(Word); ++plane) write(sizes[2 * b + 1]);
  }
  return payloads;
}

Status DeviceDeltaCoder::Apply(CodecId codec, DType dtype, ByteView delta,
                               DeviceSpan<uint8_t> words, Deadline deadline) {
  if (dtype == DType::kBF16) {
    return ApplyWords<uint16_t>(
        codec, dtype, delta, {reinterpret_cast<uint16_t*>(words.data), words.size / 2}, deadline);
  }
  if (dtype == DType::kF32) {
    return ApplyWords<uint32_t>(
        codec, dtype, delta, {reinterpret_cast<uint32_t*>(words.data), words.size / 4}, deadline);
  }
  return Unimplemented("deltas of {} words on a device", NameOf(dtype));
}

template <typename Word>
Status DeviceDeltaCoder::ApplyWords(CodecId codec, DType dtype, ByteView delta,
                                    DeviceSpan<Word> words, Deadline deadline) {
  constexpr std::string_view kWhat = "word delta";
  const auto view = ContainerView::Parse(delta);
  if (!view.ok()) return Annotate(view.status(), kWhat);
  PULSE_RETURN_IF_ERROR(Annotate(
      view->Expect({.codec = codec, .word_bytes = sizeof(Word), .elements = words.size}), kWhat));
  const uint64_t blocks = view->blocks();
  std::vector<uint32_t> entries, sizes;
  std::vector<uint64_t> starts = {0}, offsets;
  Bytes plain;
  SectionReader reader;
  for (uint64_t b = 0; b < blocks; ++b) {
    const ContainerView::Block block = view->block(b);
    entries.push_back(block.entries);
    starts.push_back(starts.back() + block.entries);
    if (codec == CodecId::kWordDeltaSmall) continue;
    offsets.push_back(plain.size());
    sizes.resize(2 * (b + 1), 0);
    if (block.entries == 0) continue;
    const Status read = [&]() -> Status {
      reader.Start(block.payload);
      PULSE_ASSIGN_OR_RETURN(
          const ByteView gaps,
          reader.Read(block.entries, MaxGapBytes(block.entries, block.elements)));
      sizes[2 * b] = static_cast<uint32_t>(gaps.size());
      plain.insert(plain.end(), gaps.begin(), gaps.end());
      PULSE_ASSIGN_OR_RETURN(const ByteView codes,
                             reader.Read(CodeBytes(block.entries), CodeBytes(block.entries)));
      plain.insert(plain.end(), codes.begin(), codes.end());
      PULSE_ASSIGN_OR_RETURN(const size_t escapes, CountEscapes(codes, block.entries));
      sizes[2 * b + 1] = static_cast<uint32_t>(escapes);
      for (size_t plane = 0; escapes > 0 && plane < sizeof(Word); ++plane) {
        PULSE_ASSIGN_OR_RETURN(const ByteView bytes, reader.Read(escapes, escapes));
        plain.insert(plain.end(), bytes.begin(), bytes.end());
      }
      return reader.Finish();
    }();
    if (!read.ok()) return Annotate(read, fmt::format("{}, block {}", kWhat, b));
  }
  if (starts.back() == 0) return OkStatus();
  if (codec == CodecId::kWordDeltaSmall) {
    offsets.assign(view->payload_offsets().begin(), view->payload_offsets().end());
  }
  const DeviceDriver& driver = work_.driver();
  const uint64_t most = MostEntries(starts);
  const ByteView sent = codec == CodecId::kWordDeltaSmall ? delta : ByteView(plain);
  PULSE_ASSIGN_OR_RETURN(const auto in, out_.Get<uint8_t>(driver, sent.size()));
  PULSE_RETURN_IF_ERROR(work_.Up(sent, in, deadline));
  PULSE_ASSIGN_OR_RETURN(const auto places, offsets_.Get<uint64_t>(driver, offsets.size()));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint64_t>(offsets), places, deadline));
  PULSE_ASSIGN_OR_RETURN(const auto errors, errors_.Get<uint32_t>(driver, blocks));
  if (codec == CodecId::kWordDeltaSmall) {
    PULSE_ASSIGN_OR_RETURN(const auto counts, entries_.Get<uint32_t>(driver, blocks));
    PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint32_t>(entries), counts, deadline));
    PULSE_ASSIGN_OR_RETURN(const auto scratch,
                           scratch_.Get<uint32_t>(driver, kernels::TeamsFor(blocks) *
                                                              kernels::SmallDeltaScratch(most)));
    const kernels::SmallDeltaApplyOp<Word> op{
        words.data, words.size, ExponentsOf(dtype), counts.data, in.data, places.data, errors.data};
    const auto& apply = Of<Word>(kernels_.small_delta_apply16, kernels_.small_delta_apply32);
    PULSE_RETURN_IF_ERROR(
        work_.Did(apply(op, blocks, most, scratch, work_.stream()), "applying a delta"));
  } else {
    PULSE_ASSIGN_OR_RETURN(const auto begin, starts_.Get<uint64_t>(driver, blocks + 1));
    PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint64_t>(starts), begin, deadline));
    PULSE_ASSIGN_OR_RETURN(const auto counts, sizes_.Get<uint32_t>(driver, 2 * blocks));
    PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint32_t>(sizes), counts, deadline));
    PULSE_ASSIGN_OR_RETURN(const auto positions, positions_.Get<uint32_t>(driver, starts.back()));
    PULSE_ASSIGN_OR_RETURN(
        const auto scratch,
        scratch_.Get<uint32_t>(driver, kernels::TeamsFor(blocks) * kernels::GapsScratch(most)));
    const kernels::WordStepsApplyOp<Word> op{words.data, words.size,  begin.data,     counts.data,
                                             in.data,    places.data, positions.data, errors.data};
    const auto& apply = Of<Word>(kernels_.word_steps_apply16, kernels_.word_steps_apply32);
    PULSE_RETURN_IF_ERROR(
        work_.Did(apply(op, blocks, most, scratch, work_.stream()), "applying a delta"));
  }
  std::vector<uint32_t> found(blocks);
  PULSE_RETURN_IF_ERROR(work_.Down<uint32_t>(errors, std::span(found), deadline));
  return CheckBlocks(found, kWhat);
}

}  // namespace pulse
