#include "sync/payload_file_source.h"

#include <algorithm>

namespace pulse {

Status HeadedSource::Read(uint64_t offset, ByteSpan out) const {
  if (offset < header_.size()) {
    const size_t from_header = std::min<size_t>(out.size(), header_.size() - offset);
    std::ranges::copy(ByteView(header_).subspan(offset, from_header), out.begin());
    out = out.subspan(from_header);
    offset += from_header;
  }
  if (out.empty()) return OkStatus();
  return body_->Read(offset - header_.size(), out);
}

RunsSource::RunsSource(const ViewSource& view, std::vector<TensorRange> runs)
    : view_(view), runs_(std::move(runs)), starts_{0} {
  for (const TensorRange& run : runs_) starts_.push_back(starts_.back() + run.bytes());
}

Status RunsSource::Read(uint64_t offset, ByteSpan out) const {
  Bytes scratch;
  // The last run that starts at or before the offset; empty runs before it start there too.
  size_t i = static_cast<size_t>(std::ranges::upper_bound(starts_, offset) - starts_.begin()) - 1;
  while (!out.empty()) {
    if (i >= runs_.size()) return Internal("read beyond the end of a payload");
    const TensorRange& run = runs_[i];
    uint64_t at = run.begin + (offset - starts_[i]);
    while (at < run.end && !out.empty()) {
      const uint64_t cell_end = std::min(run.end, at / kCellBytes * kCellBytes + kCellBytes);
      const uint64_t end = std::min<uint64_t>(cell_end, at + out.size());
      // Whole elements only, whatever the caller's offsets are.
      const uint64_t first = at / kViewAlignment * kViewAlignment;
      const uint64_t last =
          std::min(cell_end, (end + kViewAlignment - 1) / kViewAlignment * kViewAlignment);
      PULSE_ASSIGN_OR_RETURN(const ByteView bytes, view_.Read({run.tensor, first, last}, scratch));
      std::ranges::copy(bytes.subspan(at - first, end - at), out.begin());
      out = out.subspan(end - at);
      offset += end - at;
      at = end;
    }
    ++i;
  }
  return OkStatus();
}

}  // namespace pulse
