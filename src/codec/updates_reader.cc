#include "codec/updates_reader.h"

namespace pulse {

StatusOr<size_t> UpdatesReader::Add(ByteView bytes) {
  auto view = ContainerView::Parse(bytes);
  if (!view.ok()) return Annotate(view.status(), "sparse update");
  PULSE_RETURN_IF_ERROR(Annotate(view->Expect(codec_.HeaderFor(elements_)), "sparse update"));
  updates_.push_back(*std::move(view));
  return updates_.size() - 1;
}

StatusOr<SparseEntries> UpdatesReader::Read(size_t update, uint64_t b) {
  const ContainerView::Block block = updates_[update].block(b);
  if (block.entries == 0) return SparseEntries{};
  auto read = codec_.name == UpdateCodecName::kFast ? ReadFast(block) : ReadSmall(block);
  if (!read.ok()) return Annotate(read.status(), fmt::format("sparse update, block {}", b));
  return read;
}

StatusOr<SparseEntries> UpdatesReader::ReadFast(const ContainerView::Block& block) {
  if (fast_ == nullptr) fast_ = std::make_unique<FastBlockDecoder>();
  positions_.resize(block.entries);
  values_.resize(block.entries);
  PULSE_RETURN_IF_ERROR(fast_->Decode(block, positions_, values_));
  return SparseEntries{positions_, values_};
}

StatusOr<SparseEntries> UpdatesReader::ReadSmall(const ContainerView::Block& block) {
  if (small_ == nullptr) small_ = std::make_unique<SmallBlockDecoder>(kernels_, codec_.coarser);
  if (classified_ != block.first) {
    classes_.Classify(kernels_.class_rank, theta_.subspan(block.first, block.elements));
    classified_ = block.first;
  }
  PULSE_RETURN_IF_ERROR(small_->Decode(classes_, block.entries, block.payload));
  return small_->entries();
}

}  // namespace pulse
