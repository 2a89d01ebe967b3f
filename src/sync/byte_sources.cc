#include "sync/byte_sources.h"

#include <algorithm>

#include "core/sha256.h"
#include "sync/staged_file.h"

namespace pulse {
namespace {

// Large enough that per-piece costs vanish, small enough to stay in cache.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

}  // namespace

StatusOr<std::shared_ptr<const MappedSource>> MappedSource::Open(Filesystem& fs,
                                                                 const std::string& path) {
  auto source = std::make_shared<MappedSource>();
  PULSE_ASSIGN_OR_RETURN(source->file_, fs.Open(path));
  PULSE_ASSIGN_OR_RETURN(source->bytes_, source->file_->Map());
  return std::shared_ptr<const MappedSource>(std::move(source));
}

Status MappedSource::Read(uint64_t offset, ByteSpan out) const {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
    return DataLoss("can't read {} bytes at {} of a file of {}", out.size(), offset, bytes_.size());
  }
  std::ranges::copy(bytes_.subspan(offset, out.size()), out.begin());
  return OkStatus();
}

Status ObjectSource::Read(uint64_t offset, ByteSpan out) const {
  if (out.empty()) return OkStatus();
  return store_.ReadAt(key_, offset, out);
}

Spool::~Spool() {
  const bool has_file = writing_ || reading_;
  writing_.reset();
  reading_.reset();
  // Nobody depends on the file; what can't be removed now is found as a leftover later.
  if (has_file) fs_->Remove(path_).IgnoreError();
}

Status Spool::Append(ByteView bytes) {
  if (!writing_ && size_ + bytes.size() > memory_bytes_) PULSE_RETURN_IF_ERROR(MoveToFile());
  size_ += bytes.size();
  if (writing_) return writing_->Append(bytes);
  memory_.insert(memory_.end(), bytes.begin(), bytes.end());
  return OkStatus();
}

Status Spool::MoveToFile() {
  if (path_.empty()) {
    return ResourceExhausted(
        "the changes need more than {} bytes of memory: raise the bound, or give a folder to spill "
        "to",
        memory_bytes_);
  }
  PULSE_ASSIGN_OR_RETURN(writing_, fs_->Create(path_));
  PULSE_RETURN_IF_ERROR(writing_->Append(memory_));
  memory_ = Bytes();
  return OkStatus();
}

Status Spool::Finish() {
  if (!writing_) return OkStatus();
  PULSE_RETURN_IF_ERROR(writing_->Close());
  PULSE_ASSIGN_OR_RETURN(reading_, fs_->Open(path_));
  writing_.reset();
  return OkStatus();
}

Status Spool::Read(uint64_t offset, ByteSpan out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Internal("read of {} bytes at {} beyond a spool of {}", out.size(), offset, size_);
  }
  if (reading_) return reading_->ReadAt(offset, out);
  std::ranges::copy(ByteView(memory_).subspan(offset, out.size()), out.begin());
  return OkStatus();
}

Status ForEachPiece(const ByteSource& source, const std::function<Status(ByteView)>& sink) {
  Bytes piece(std::min(kPieceBytes, source.size()));
  for (uint64_t at = 0; at < source.size(); at += piece.size()) {
    const ByteSpan part =
        ByteSpan(piece).first(std::min<uint64_t>(piece.size(), source.size() - at));
    PULSE_RETURN_IF_ERROR(source.Read(at, part));
    PULSE_RETURN_IF_ERROR(sink(part));
  }
  return OkStatus();
}

Status CopyToFile(Filesystem& fs, const ByteSource& source, const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(const auto file, StagedFile::Create(fs, path));
  PULSE_RETURN_IF_ERROR(ForEachPiece(source, [&](ByteView piece) { return file->Append(piece); }));
  PULSE_RETURN_IF_ERROR(file->Finish());
  return file->Commit();
}

StatusOr<std::string> Sha256Of(const ByteSource& source) {
  Sha256 sha;
  PULSE_RETURN_IF_ERROR(ForEachPiece(source, [&](ByteView piece) {
    sha.Update(piece);
    return OkStatus();
  }));
  return sha.Hex();
}

}  // namespace pulse
