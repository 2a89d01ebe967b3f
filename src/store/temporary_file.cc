#include "store/temporary_file.h"

#include <algorithm>

#include "store/file_object.h"

namespace pulse {
namespace {

// Large enough that calls cost nothing, small enough for many puts at once.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
// A put whose folder keeps vanishing (others deleting its last object) tries this often to be
// first.
constexpr int kFolderAttempts = 100;

Status CopyAndSync(const ByteSource& source, WritableFile& file) {
  Bytes piece(std::min(source.size(), kPieceBytes));
  for (uint64_t at = 0; at < source.size(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), source.size() - at));
    PULSE_RETURN_IF_ERROR(source.Read(at, piece));
    PULSE_RETURN_IF_ERROR(file.Append(piece));
  }
  PULSE_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

}  // namespace

StatusOr<std::unique_ptr<WritableFile>> TemporaryFiles::Create(const std::string& folder,
                                                               std::string& path) {
  int attempts = 0;
  while (true) {
    const Status made = fs_.CreateDirectories(folder);
    if (absl::IsAlreadyExists(made)) {
      return InvalidArgument("an object has the name of a folder ({})", ToStd(made.message()));
    }
    // The folder may be removed at any moment, for being empty.
    if (absl::IsNotFound(made) && ++attempts < kFolderAttempts) continue;
    PULSE_RETURN_IF_ERROR(made);
    path = fmt::format("{}/{}{:x}-{}", folder, kTemporaryPrefix, clock_.UnixNs(), made_++);
    auto file = fs_.Create(path);
    if (absl::IsAlreadyExists(file.status())) continue;  // another process thought of the same name
    if (!absl::IsNotFound(file.status()) || ++attempts == kFolderAttempts) return file;
  }
}

StatusOr<TemporaryFile> TemporaryFiles::Write(const std::string& folder, std::string_view key,
                                              const ByteSource& source) {
  TemporaryFile result;
  const auto write = [&]() -> Status {
    PULSE_ASSIGN_OR_RETURN(const auto file, Create(folder, result.path));
    PULSE_RETURN_IF_ERROR(CopyAndSync(source, *file));
    PULSE_ASSIGN_OR_RETURN(const auto written, fs_.Open(result.path));
    result.file_id = written->entry().file_id;
    PULSE_ASSIGN_OR_RETURN(result.info, DescribeFile(key, *written));
    return OkStatus();
  };
  if (const Status status = write(); !status.ok()) {
    if (!result.path.empty()) Discard(result);
    return status;
  }
  return result;
}

void TemporaryFiles::Discard(TemporaryFile& file) {
  if (!file.gone) fs_.Remove(file.path).IgnoreError();
  file.gone = true;
}

}  // namespace pulse
