#include "sync/staged_file.h"

#include <unistd.h>

namespace pulse {

StatusOr<std::unique_ptr<StagedFile>> StagedFile::Create(Filesystem& fs, const std::string& path) {
  std::unique_ptr<StagedFile> staged(new StagedFile(fs, path));
  // Others may be writing the same path, or have died doing so: the first free name.
  for (uint64_t counter = 0; !staged->exists_; ++counter) {
    staged->temporary_path_ = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter);
    auto file = fs.Create(staged->temporary_path_);
    if (absl::IsAlreadyExists(file.status())) continue;
    PULSE_RETURN_IF_ERROR(file.status());
    staged->file_ = *std::move(file);
    staged->exists_ = true;
  }
  return staged;
}

StagedFile::~StagedFile() {
  file_.reset();
  if (exists_) fs_.Remove(temporary_path_).IgnoreError();
}

Status StagedFile::Finish() {
  if (finished_) return FailedPrecondition("{}: Finish called twice", path_);
  PULSE_RETURN_IF_ERROR(file_->Sync());
  PULSE_RETURN_IF_ERROR(file_->Close());
  finished_ = true;
  return OkStatus();
}

Status StagedFile::Commit() {
  if (!finished_ || !exists_) return FailedPrecondition("{}: Commit out of turn", path_);
  PULSE_RETURN_IF_ERROR(fs_.Rename(temporary_path_, path_));
  exists_ = false;
  return SyncDirectoryWherePossible(fs_, ParentFolder(path_));
}

std::string ParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace pulse
