#include "codec/sparse_small.h"

#include <algorithm>
#include <memory>

#include "codec/container.h"
#include "codec/small_block_decoder.h"
#include "codec/small_block_encoder.h"
#include "codec/theta_classes.h"

namespace pulse {
namespace {

static_assert(kSparseBlockElements == kContainerBlockElements);

ContainerHeader HeaderFor(uint64_t elements) {
  return {.codec = CodecId::kSparseUpdateSmall, .word_bytes = sizeof(float), .elements = elements};
}

}  // namespace

Bytes EncodeSparseUpdateSmall(const kernels::KernelTable& kernels, const SparseUpdateView& update,
                              std::span<const float> theta, unsigned coarser,
                              ClassesOfBlocks* classes) {
  ContainerWriter writer(HeaderFor(update.elements));
  const auto encoder = std::make_unique<SmallBlockEncoder>(kernels, coarser);
  ThetaClasses own;
  for (size_t b = 0; b < update.blocks(); ++b) {
    const SparseEntries entries = update.Block(b);
    if (!entries.positions.empty()) {
      const uint64_t first = b * kSparseBlockElements;
      const auto block =
          theta.subspan(first, std::min<uint64_t>(kSparseBlockElements, theta.size() - first));
      if (classes == nullptr) own.Classify(kernels.class_rank, block);
      const ByteView payload =
          encoder->Encode(classes != nullptr ? classes->Of(block) : own, entries);
      writer.bytes().insert(writer.bytes().end(), payload.begin(), payload.end());
    }
    writer.CloseBlock(static_cast<uint32_t>(entries.positions.size()));
  }
  return writer.Finish();
}

StatusOr<SparseUpdate> DecodeSparseUpdateSmall(const kernels::KernelTable& kernels, ByteView bytes,
                                               std::span<const float> theta, unsigned coarser) {
  const auto view = ContainerView::Parse(bytes);
  if (!view.ok()) return Annotate(view.status(), "sparse update");
  PULSE_RETURN_IF_ERROR(Annotate(view->Expect(HeaderFor(theta.size())), "sparse update"));
  SparseUpdate update;
  update.elements = theta.size();
  update.starts.reserve(view->blocks() + 1);
  // An entry takes more than a byte, or nearly nothing where all are alike: then the arrays grow.
  update.positions.reserve(std::min<uint64_t>(view->entries(), bytes.size()));
  update.values.reserve(std::min<uint64_t>(view->entries(), bytes.size()));
  const auto decoder = std::make_unique<SmallBlockDecoder>(kernels, coarser);
  ThetaClasses classes;
  DecodedBlock decoded;
  for (uint64_t b = 0; b < view->blocks(); ++b) {
    const ContainerView::Block block = view->block(b);
    if (block.entries > 0) {
      classes.Classify(kernels.class_rank, theta.subspan(block.first, block.elements));
      const Status status = decoder->Decode(classes, block.entries, block.payload, decoded);
      if (!status.ok()) return Annotate(status, fmt::format("sparse update, block {}", b));
      const auto [positions, values] = decoded.entries();
      update.positions.insert(update.positions.end(), positions.begin(), positions.end());
      update.values.insert(update.values.end(), values.begin(), values.end());
    }
    update.starts.push_back(update.positions.size());
  }
  return update;
}

}  // namespace pulse
