#include "codec/device/update_coder.h"

#include "codec/device/block_coding.h"
#include "codec/gaps.h"
#include "codec/sections.h"
#include "core/sparse_update.h"

namespace pulse {
namespace {

static_assert(kSparseBlockElements == kernels::kScatterBlockElements);
static_assert(kSparseBlockElements == kContainerBlockElements);

constexpr std::string_view kWhat = "sparse update";

ContainerHeader HeaderOf(const UpdateCodec& codec, uint64_t elements) {
  const bool fast = codec.name == UpdateCodecName::kFast;
  return {.codec = fast ? CodecId::kSparseUpdateFast : CodecId::kSparseUpdateSmall,
          .word_bytes = sizeof(float),
          .elements = elements};
}

uint64_t ElementsOf(const DeviceUpdate& update, uint64_t first, uint64_t last) {
  return std::min(last * kSparseBlockElements, update.elements) - first * kSparseBlockElements;
}

// Plain sections of the blocks of a container in codec fast: gaps, four planes of values.
struct PlainSections {
  Bytes bytes;
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> gap_bytes;
};

StatusOr<PlainSections> ReadSections(const ContainerView& view) {
  PlainSections plain;
  SectionReader reader;
  for (uint64_t b = 0; b < view.blocks(); ++b) {
    const ContainerView::Block block = view.block(b);
    plain.offsets.push_back(plain.bytes.size());
    plain.gap_bytes.push_back(0);
    if (block.entries == 0) continue;
    reader.Start(block.payload);
    for (int section = 0; section < 5; ++section) {
      auto read = section == 0
                      ? reader.Read(block.entries, MaxGapBytes(block.entries, block.elements))
                      : reader.Read(block.entries, block.entries);
      if (!read.ok()) return Annotate(read.status(), fmt::format("sparse update, block {}", b));
      if (section == 0) plain.gap_bytes.back() = static_cast<uint32_t>(read->size());
      plain.bytes.insert(plain.bytes.end(), read->begin(), read->end());
    }
    PULSE_RETURN_IF_ERROR(Annotate(reader.Finish(), fmt::format("sparse update, block {}", b)));
  }
  plain.offsets.push_back(plain.bytes.size());
  return plain;
}

}  // namespace

StatusOr<DeviceSpan<uint32_t>> DeviceUpdateCoder::Scratch(uint64_t blocks, uint64_t words) {
  return scratch_.Get<uint32_t>(work_.driver(), kernels::TeamsFor(blocks) * words);
}

StatusOr<DeviceSpan<uint64_t>> DeviceUpdateCoder::Offsets(std::span<const uint64_t> offsets,
                                                          Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto room,
                         offsets_room_.Get<uint64_t>(work_.driver(), offsets.size()));
  PULSE_RETURN_IF_ERROR(work_.Up(offsets, room, deadline));
  return room;
}

StatusOr<DeviceSpan<uint8_t>> DeviceUpdateCoder::Zeros(DeviceRoom& room, uint64_t bytes) {
  // Whole words and one more: bits are put by words.
  PULSE_ASSIGN_OR_RETURN(const auto zeros,
                         room.Get<uint8_t>(work_.driver(), (bytes + 3) / 4 * 4 + 8));
  PULSE_RETURN_IF_ERROR(work_.Zero(zeros));
  return zeros;
}

kernels::SparseSmallEncodeOp DeviceUpdateCoder::SmallOp(uint64_t first, uint64_t last) const {
  kernels::SparseSmallEncodeOp op{};
  op.update = {theta_.data + first * kSparseBlockElements, ElementsOf(update_, first, last),
               update_.device_starts.data + first};
  op.positions = update_.positions.data;
  op.values = update_.values.data;
  op.coarser = codec_.coarser;
  return op;
}

Status DeviceUpdateCoder::Measure(const UpdateCodec& codec, const DeviceUpdate& update,
                                  DeviceSpan<const float> theta, Deadline deadline) {
  codec_ = codec;
  update_ = update;
  theta_ = theta;
  const uint64_t blocks = update.starts.size() - 1;
  sizes_.assign(blocks, 0);
  if (update.entries() == 0) return OkStatus();
  PULSE_ASSIGN_OR_RETURN(const auto sizes, sizes_room_.Get<uint32_t>(work_.driver(), blocks));
  if (codec.name == UpdateCodecName::kFast) {
    const kernels::SparseFastEncodeOp op{update.device_starts.data,
                                         update.positions.data,
                                         update.values.data,
                                         sizes.data,
                                         nullptr,
                                         nullptr};
    PULSE_RETURN_IF_ERROR(work_.Did(kernels_.sparse_fast_encode(op, blocks, work_.stream()),
                                    "measuring a sparse update"));
  } else {
    const uint64_t most = MostEntries(update.starts);
    PULSE_ASSIGN_OR_RETURN(const auto scratch, Scratch(blocks, kernels::SparseSmallScratch(most)));
    kernels::SparseSmallEncodeOp op = SmallOp(0, blocks);
    op.sizes = sizes.data;
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.sparse_small_encode(op, blocks, most, scratch, work_.stream()),
                  "measuring a sparse update"));
  }
  return work_.Down<uint32_t>(sizes, std::span(sizes_), deadline);
}

StatusOr<Bytes> DeviceUpdateCoder::Encode(uint64_t first, uint64_t last, Deadline deadline) {
  return codec_.name == UpdateCodecName::kFast ? EncodeFast(first, last, deadline)
                                               : EncodeSmall(first, last, deadline);
}

StatusOr<DeviceSpan<uint8_t>> DeviceUpdateCoder::EncodeOnDevice(uint64_t first, uint64_t last,
                                                                uint64_t behind, DeviceRoom& room,
                                                                Deadline deadline) {
  if (codec_.name != UpdateCodecName::kSmall) {
    return Internal("codec {} ends on the host", NameOf(codec_.name));
  }
  const uint64_t blocks = last - first;
  const auto sizes = std::span<const uint32_t>(sizes_).subspan(first, blocks);
  const auto starts = std::span<const uint64_t>(update_.starts).subspan(first, blocks + 1);
  std::vector<uint32_t> entries(blocks);
  for (uint64_t b = 0; b < blocks; ++b) {
    entries[b] = static_cast<uint32_t>(starts[b + 1] - starts[b]);
  }
  const ContainerHeader header = HeaderOf(codec_, ElementsOf(update_, first, last));
  const Bytes head = ContainerHead(header, entries, sizes);
  std::vector<uint64_t> offsets = OffsetsOf(sizes);
  for (uint64_t& offset : offsets) offset += head.size();
  PULSE_ASSIGN_OR_RETURN(const auto out, Zeros(room, offsets.back() + behind));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint8_t>(head), out.first(head.size()), deadline));
  if (starts.front() < starts.back()) {
    const uint64_t most = MostEntries(starts);
    PULSE_ASSIGN_OR_RETURN(const auto scratch, Scratch(blocks, kernels::SparseSmallScratch(most)));
    PULSE_ASSIGN_OR_RETURN(const auto places, Offsets(offsets, deadline));
    PULSE_ASSIGN_OR_RETURN(const auto again, sizes_room_.Get<uint32_t>(work_.driver(), blocks));
    kernels::SparseSmallEncodeOp op = SmallOp(first, last);
    op.sizes = again.data;
    op.offsets = places.data;
    op.out = reinterpret_cast<uint32_t*>(out.data);
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.sparse_small_encode(op, blocks, most, scratch, work_.stream()),
                  "encoding a sparse update"));
  }
  return out.first(offsets.back() + behind);
}

StatusOr<Bytes> DeviceUpdateCoder::EncodeSmall(uint64_t first, uint64_t last, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto made, EncodeOnDevice(first, last, 0, payload_room_, deadline));
  Bytes bytes(made.size);
  PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(made, std::span(bytes), deadline));
  return bytes;
}

StatusOr<Bytes> DeviceUpdateCoder::EncodeFast(uint64_t first, uint64_t last, Deadline deadline) {
  const uint64_t blocks = last - first;
  std::vector<uint64_t> plain_sizes;
  for (uint64_t b = first; b < last; ++b) {
    plain_sizes.push_back(sizes_[b] + 4 * (update_.starts[b + 1] - update_.starts[b]));
  }
  const std::vector<uint64_t> offsets = OffsetsOf(std::span<const uint64_t>(plain_sizes));
  Bytes plain(offsets.back());
  if (offsets.back() > 0) {
    PULSE_ASSIGN_OR_RETURN(const auto out, Zeros(payload_room_, offsets.back()));
    PULSE_ASSIGN_OR_RETURN(const auto places, Offsets(offsets, deadline));
    const kernels::SparseFastEncodeOp op{update_.device_starts.data + first,
                                         update_.positions.data,
                                         update_.values.data,
                                         nullptr,
                                         places.data,
                                         out.data};
    PULSE_RETURN_IF_ERROR(work_.Did(kernels_.sparse_fast_encode(op, blocks, work_.stream()),
                                    "encoding a sparse update"));
    PULSE_RETURN_IF_ERROR(
        work_.Down<uint8_t>(out.first(offsets.back()), std::span(plain), deadline));
  }
  ContainerWriter writer(HeaderOf(codec_, ElementsOf(update_, first, last)));
  SectionWriter sections;
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint64_t entries = update_.starts[first + b + 1] - update_.starts[first + b];
    ByteView rest = ByteView(plain).subspan(offsets[b], plain_sizes[b]);
    if (entries > 0) {
      sections.Write(rest.first(sizes_[first + b]), writer.bytes());
      rest = rest.subspan(sizes_[first + b]);
      for (int plane = 0; plane < 4; ++plane, rest = rest.subspan(entries)) {
        sections.Write(rest.first(entries), writer.bytes());
      }
    }
    writer.CloseBlock(static_cast<uint32_t>(entries));
  }
  return writer.Finish();
}

StatusOr<DeviceUpdate> DeviceUpdateCoder::Claimed(const ContainerView& view, uint64_t elements,
                                                  Deadline deadline) {
  DeviceUpdate update;
  update.elements = elements;
  for (uint64_t b = 0; b < view.blocks(); ++b) {
    update.starts.push_back(update.starts.back() + view.block(b).entries);
  }
  const DeviceDriver& driver = work_.driver();
  PULSE_ASSIGN_OR_RETURN(const auto starts, in_starts_.Get<uint64_t>(driver, view.blocks() + 1));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint64_t>(update.starts), starts, deadline));
  PULSE_ASSIGN_OR_RETURN(positions_, in_positions_.Get<uint32_t>(driver, update.entries()));
  PULSE_ASSIGN_OR_RETURN(values_, in_values_.Get<float>(driver, update.entries()));
  update.device_starts = starts;
  update.positions = positions_;
  update.values = values_;
  return update;
}

StatusOr<DeviceUpdate> DeviceUpdateCoder::Decode(const UpdateCodec& codec, ByteView bytes,
                                                 DeviceSpan<const float> theta, Deadline deadline) {
  const auto view = ContainerView::Parse(bytes);
  if (!view.ok()) return Annotate(view.status(), kWhat);
  PULSE_RETURN_IF_ERROR(Annotate(view->Expect(HeaderOf(codec, theta.size)), kWhat));
  PULSE_ASSIGN_OR_RETURN(DeviceUpdate update, Claimed(*view, theta.size, deadline));
  if (update.entries() == 0) return update;
  if (codec.name == UpdateCodecName::kFast) {
    PULSE_RETURN_IF_ERROR(DecodeFast(*view, update, deadline));
    return update;
  }
  PULSE_ASSIGN_OR_RETURN(const auto in, in_bytes_.Get<uint8_t>(work_.driver(), bytes.size()));
  PULSE_RETURN_IF_ERROR(work_.Up(bytes, in, deadline));
  PULSE_RETURN_IF_ERROR(DecodeSmall(codec.coarser, *view, in, theta, update, deadline));
  return update;
}

StatusOr<DeviceUpdate> DeviceUpdateCoder::DecodeOnDevice(const UpdateCodec& codec,
                                                         DeviceSpan<const uint8_t> bytes,
                                                         DeviceSpan<const float> theta,
                                                         Deadline deadline) {
  if (codec.name != UpdateCodecName::kSmall) {
    return Internal("codec {} begins on the host", NameOf(codec.name));
  }
  Bytes head(std::min(ContainerHeadBytes(theta.size), bytes.size));
  PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(bytes.first(head.size()), std::span(head), deadline));
  const auto view = ContainerView::ParseHead(head, bytes.size);
  if (!view.ok()) return Annotate(view.status(), kWhat);
  PULSE_RETURN_IF_ERROR(Annotate(view->Expect(HeaderOf(codec, theta.size)), kWhat));
  PULSE_ASSIGN_OR_RETURN(DeviceUpdate update, Claimed(*view, theta.size, deadline));
  if (update.entries() == 0) return update;
  PULSE_RETURN_IF_ERROR(DecodeSmall(codec.coarser, *view, bytes, theta, update, deadline));
  return update;
}

Status DeviceUpdateCoder::DecodeFast(const ContainerView& view, const DeviceUpdate& update,
                                     Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(const PlainSections plain, ReadSections(view));
  const uint64_t blocks = view.blocks(), most = MostEntries(update.starts);
  const DeviceDriver& driver = work_.driver();
  PULSE_ASSIGN_OR_RETURN(const auto in, in_bytes_.Get<uint8_t>(driver, plain.bytes.size()));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint8_t>(plain.bytes), in, deadline));
  PULSE_ASSIGN_OR_RETURN(const auto offsets, in_offsets_.Get<uint64_t>(driver, blocks + 1));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint64_t>(plain.offsets), offsets, deadline));
  PULSE_ASSIGN_OR_RETURN(const auto gaps, in_sizes_.Get<uint32_t>(driver, blocks));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint32_t>(plain.gap_bytes), gaps, deadline));
  PULSE_ASSIGN_OR_RETURN(const auto scratch, Scratch(blocks, kernels::GapsScratch(most)));
  PULSE_ASSIGN_OR_RETURN(const auto errors, in_errors_.Get<uint32_t>(driver, blocks));
  const kernels::SparseFastDecodeOp op{
      update.elements, update.device_starts.data, gaps.data,    in.data,
      offsets.data,    positions_.data,           values_.data, errors.data};
  PULSE_RETURN_IF_ERROR(
      work_.Did(kernels_.sparse_fast_decode(op, blocks, most, scratch, work_.stream()),
                "decoding a sparse update"));
  return CheckErrors(errors, deadline);
}

Status DeviceUpdateCoder::DecodeSmall(unsigned coarser, const ContainerView& view,
                                      DeviceSpan<const uint8_t> bytes,
                                      DeviceSpan<const float> theta, const DeviceUpdate& update,
                                      Deadline deadline) {
  const uint64_t blocks = view.blocks(), most = MostEntries(update.starts);
  const DeviceDriver& driver = work_.driver();
  PULSE_ASSIGN_OR_RETURN(const auto offsets, in_offsets_.Get<uint64_t>(driver, blocks + 1));
  PULSE_RETURN_IF_ERROR(work_.Up(view.payload_offsets(), offsets, deadline));
  PULSE_ASSIGN_OR_RETURN(const auto scratch, Scratch(blocks, kernels::SparseSmallScratch(most)));
  PULSE_ASSIGN_OR_RETURN(const auto errors, in_errors_.Get<uint32_t>(driver, blocks));
  const kernels::SparseSmallDecodeOp op{{theta.data, theta.size, update.device_starts.data},
                                        bytes.data,
                                        offsets.data,
                                        coarser,
                                        positions_.data,
                                        values_.data,
                                        errors.data};
  PULSE_RETURN_IF_ERROR(
      work_.Did(kernels_.sparse_small_decode(op, blocks, most, scratch, work_.stream()),
                "decoding a sparse update"));
  return CheckErrors(errors, deadline);
}

Status DeviceUpdateCoder::CheckErrors(DeviceSpan<const uint32_t> errors, Deadline deadline) {
  std::vector<uint32_t> found(errors.size);
  PULSE_RETURN_IF_ERROR(work_.Down<uint32_t>(errors, std::span(found), deadline));
  return CheckBlocks(found, kWhat);
}

uint64_t DeviceUpdateCoder::device_bytes() const {
  uint64_t bytes = 0;
  for (const DeviceRoom* room :
       {&scratch_, &sizes_room_, &offsets_room_, &payload_room_, &in_bytes_, &in_starts_,
        &in_offsets_, &in_positions_, &in_values_, &in_errors_, &in_sizes_}) {
    bytes += room->bytes();
  }
  return bytes;
}

}  // namespace pulse
