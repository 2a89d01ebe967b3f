#include "codec/updates_reader.h"

namespace pulse {

StatusOr<size_t> UpdatesReader::Add(ByteView bytes) {
  auto view = ContainerView::Parse(bytes);
  if (!view.ok()) return Annotate(view.status(), "sparse update");
  PULSE_RETURN_IF_ERROR(Annotate(view->Expect(codec_.HeaderFor(elements_)), "sparse update"));
  updates_.push_back(*std::move(view));
  blocks_.emplace_back();
  return updates_.size() - 1;
}

StatusOr<SparseEntries> UpdatesReader::Read(size_t update, uint64_t b) {
  const ContainerView::Block block = updates_[update].block(b);
  if (block.entries == 0) return SparseEntries{};
  DecodedBlock& into = blocks_[update];
  const Status read =
      codec_.name == UpdateCodecName::kFast ? ReadFast(block, into) : ReadSmall(block, into);
  if (!read.ok()) return Annotate(read, fmt::format("sparse update, block {}", b));
  return into.entries();
}

Status UpdatesReader::ReadFast(const ContainerView::Block& block, DecodedBlock& into) {
  if (fast_ == nullptr) fast_ = std::make_unique<FastBlockDecoder>();
  into.positions.resize(block.entries);
  into.values.resize(block.entries);
  return fast_->Decode(block, into.positions, into.values);
}

Status UpdatesReader::ReadSmall(const ContainerView::Block& block, DecodedBlock& into) {
  if (small_ == nullptr) small_ = std::make_unique<SmallBlockDecoder>(kernels_, codec_.coarser);
  const auto theta = theta_.subspan(block.first, block.elements);
  if (classes_ != nullptr) {
    return small_->Decode(classes_->Of(theta), block.entries, block.payload, into);
  }
  if (classified_ != block.first) {
    own_classes_.Classify(kernels_.class_rank, theta);
    classified_ = block.first;
  }
  return small_->Decode(own_classes_, block.entries, block.payload, into);
}

}  // namespace pulse
