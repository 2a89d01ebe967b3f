#include "sync/foreign/joined_source.h"

#include <algorithm>

namespace pulse {

JoinedSource::JoinedSource(std::vector<std::shared_ptr<const ByteSource>> parts)
    : parts_(std::move(parts)) {
  for (const auto& part : parts_) size_ += part->size();
}

Status JoinedSource::Read(uint64_t offset, ByteSpan out) const {
  for (const auto& part : parts_) {
    if (out.empty()) return OkStatus();
    if (offset >= part->size()) {
      offset -= part->size();
      continue;
    }
    const size_t here = std::min<uint64_t>(out.size(), part->size() - offset);
    PULSE_RETURN_IF_ERROR(part->Read(offset, out.first(here)));
    out = out.subspan(here);
    offset = 0;
  }
  return out.empty() ? OkStatus() : Internal("read beyond the end of joined sources");
}

}  // namespace pulse
