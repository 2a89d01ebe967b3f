// The pieces that a payload file is put together from, without copying what they hold.
#pragma once

#include <memory>
#include <vector>

#include "store/store.h"
#include "sync/view.h"

namespace pulse {

// A header in memory, then a body.
class HeadedSource final : public ByteSource {
 public:
  HeadedSource(Bytes header, std::shared_ptr<const ByteSource> body)
      : header_(std::move(header)), body_(std::move(body)) {}
  uint64_t size() const override { return header_.size() + body_->size(); }
  Status Read(uint64_t offset, ByteSpan out) const override;

 private:
  Bytes header_;
  std::shared_ptr<const ByteSource> body_;
};

// Runs of a view's tensors, one behind the other. The view must outlive the source.
class RunsSource final : public ByteSource {
 public:
  RunsSource(const ViewSource& view, std::vector<TensorRange> runs);
  uint64_t size() const override { return starts_.back(); }
  Status Read(uint64_t offset, ByteSpan out) const override;

 private:
  const ViewSource& view_;
  std::vector<TensorRange> runs_;
  std::vector<uint64_t> starts_;  // of each run in the source; at the end, its size
};

}  // namespace pulse
