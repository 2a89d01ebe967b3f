#include "sync/foreign/tensor_file.h"

#include <algorithm>

namespace pulse {
namespace {

// Of one request: large beside a round trip's bytes in flight, small beside any memory bound.
constexpr uint64_t kBufferBytes = uint64_t{1} << 20;

}  // namespace

StatusOr<std::shared_ptr<const TensorFile>> TensorFile::Open(
    std::shared_ptr<const ByteSource> source, std::string where) {
  std::shared_ptr<TensorFile> file(new TensorFile);
  file->source_ = std::move(source);
  file->where_ = std::move(where);
  const auto read = [&]() -> StatusOr<SafetensorsHeader> {
    const uint64_t size = file->source_->size();
    Bytes prefix(std::min(kSafetensorsPrefixBytes, size));
    PULSE_RETURN_IF_ERROR(file->source_->Read(0, prefix));
    PULSE_ASSIGN_OR_RETURN(const uint64_t bytes, SafetensorsHeaderBytes(prefix, size));
    Bytes json(bytes);
    PULSE_RETURN_IF_ERROR(file->source_->Read(kSafetensorsPrefixBytes, json));
    return ParseSafetensorsHeader(json, size);
  };
  auto header = read();
  PULSE_RETURN_IF_ERROR(Annotate(header.status(), file->where_));
  file->header_ = *std::move(header);
  for (size_t i = 0; i < file->header_.entries.size(); ++i) {
    file->by_name_[file->header_.entries[i].spec.name] = i;
  }
  return std::shared_ptr<const TensorFile>(std::move(file));
}

const SafetensorsEntry* TensorFile::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.entries[found->second];
}

EntryReader::EntryReader(std::shared_ptr<const TensorFile> file, const SafetensorsEntry& entry)
    : file_(std::move(file)), at_(entry.begin), end_(entry.end) {}

Status EntryReader::Refill() {
  buffer_.resize(std::min(kBufferBytes, end_ - at_));
  taken_ = 0;
  PULSE_RETURN_IF_ERROR(file_->Read(at_, buffer_));
  at_ += buffer_.size();
  return OkStatus();
}

StatusOr<ByteView> EntryReader::Next(size_t most) {
  if (buffered() == 0) PULSE_RETURN_IF_ERROR(Refill());
  const ByteView next = ByteView(buffer_).subspan(taken_, std::min(most, buffered()));
  taken_ += next.size();
  return next;
}

Status EntryReader::Fill(ByteSpan out) {
  while (!out.empty()) {
    PULSE_ASSIGN_OR_RETURN(const ByteView next, Next(out.size()));
    if (next.empty()) return DataLoss("{}: a tensor ends too early", file_->where());
    std::ranges::copy(next, out.begin());
    out = out.subspan(next.size());
  }
  return OkStatus();
}

}  // namespace pulse
