#include "store/filesystem.h"

#include <unistd.h>

namespace pulse {
namespace {

// The first free name "<path>.tmp-<pid>-<counter>", made. A name may be taken by a process that
// crashed and had our pid (in a container that is the rule), so taken ones are passed over.
StatusOr<std::unique_ptr<WritableFile>> CreateBeside(Filesystem& fs, const std::string& path,
                                                     std::string& temporary) {
  for (uint64_t counter = 0;; ++counter) {
    temporary = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter);
    auto file = fs.Create(temporary);
    if (!absl::IsAlreadyExists(file.status())) return file;
  }
}

Status WriteAndSync(WritableFile& file, ByteView bytes) {
  PULSE_RETURN_IF_ERROR(file.Append(bytes));
  PULSE_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

}  // namespace

Status SyncDirectoryWherePossible(Filesystem& fs, const std::string& path) {
  const Status status = fs.SyncDirectory(path);
  return absl::IsUnimplemented(status) ? OkStatus() : status;
}

StatusOr<Bytes> ReadFile(Filesystem& fs, const std::string& path, uint64_t max_bytes) {
  PULSE_ASSIGN_OR_RETURN(const auto file, fs.Open(path));
  if (file->size() > max_bytes) {
    return ResourceExhausted("{} has {} bytes, above the bound of {}", path, file->size(),
                             max_bytes);
  }
  Bytes bytes(file->size());
  PULSE_RETURN_IF_ERROR(file->ReadAt(0, bytes));
  return bytes;
}

Status WriteFileAtomically(Filesystem& fs, const std::string& path, ByteView bytes) {
  std::string temporary;
  PULSE_ASSIGN_OR_RETURN(auto file, CreateBeside(fs, path, temporary));
  Status status = WriteAndSync(*file, bytes);
  file.reset();
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) {
    fs.Remove(temporary).IgnoreError();  // the first error is the one to tell
    return status;
  }
  const size_t slash = path.rfind('/');
  return SyncDirectoryWherePossible(fs, slash == std::string::npos ? "."
                                        : slash == 0               ? "/"
                                                                   : path.substr(0, slash));
}

}  // namespace pulse
