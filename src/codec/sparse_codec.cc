#include "codec/sparse_codec.h"

#include "codec/gaps.h"

namespace pulse {

static_assert(kSparseBlockElements == kContainerBlockElements);

// Payload of a block: gaps, and the four byte planes of the values.
Status FastBlockDecoder::Decode(const ContainerView::Block& block, std::span<uint32_t> positions,
                                std::span<float> values) {
  reader_.Start(block.payload);
  PULSE_ASSIGN_OR_RETURN(const ByteView gaps,
                         reader_.Read(block.entries, MaxGapBytes(block.entries, block.elements)));
  PULSE_RETURN_IF_ERROR(DecodeGaps(gaps, block.elements, positions));
  PULSE_RETURN_IF_ERROR(reader_.ReadPlanes(
      sizeof(float), {reinterpret_cast<uint8_t*>(values.data()), values.size_bytes()}));
  return reader_.Finish();
}

Bytes EncodeSparseUpdate(const SparseUpdateView& update) {
  ContainerWriter writer({.codec = CodecId::kSparseUpdateFast,
                          .word_bytes = sizeof(float),
                          .elements = update.elements});
  SectionWriter sections;
  Bytes gaps;
  for (size_t b = 0; b < update.blocks(); ++b) {
    const auto [positions, values] = update.Block(b);
    if (!positions.empty()) {
      EncodeGaps(positions, gaps);
      sections.Write(gaps, writer.bytes());
      sections.WritePlanes(AsBytes(values), sizeof(float), writer.bytes());
    }
    writer.CloseBlock(static_cast<uint32_t>(positions.size()));
  }
  return writer.Finish();
}

StatusOr<SparseUpdate> DecodeSparseUpdate(ByteView bytes, uint64_t elements) {
  auto view = ContainerView::Parse(bytes);
  if (!view.ok()) return Annotate(view.status(), "sparse update");
  PULSE_RETURN_IF_ERROR(Annotate(
      view->Expect(
          {.codec = CodecId::kSparseUpdateFast, .word_bytes = sizeof(float), .elements = elements}),
      "sparse update"));
  SparseUpdate update;
  update.elements = elements;
  update.starts.reserve(view->blocks() + 1);
  // The directory claims at most one entry per element, so this is the bound that we promise.
  update.positions.resize(view->entries());
  update.values.resize(view->entries());
  FastBlockDecoder decoder;
  for (uint64_t b = 0; b < view->blocks(); ++b) {
    const ContainerView::Block block = view->block(b);
    const uint64_t start = update.starts.back();
    update.starts.push_back(start + block.entries);
    if (block.entries == 0) continue;
    const Status decoded =
        decoder.Decode(block, std::span(update.positions).subspan(start, block.entries),
                       std::span(update.values).subspan(start, block.entries));
    if (!decoded.ok()) return Annotate(decoded, fmt::format("sparse update, block {}", b));
  }
  return update;
}

}  // namespace pulse
