#include "store/file_object.h"

#include <algorithm>

#include "core/digest.h"

namespace pulse {
namespace {

StatusOr<std::string> EtagOf(const ReadableFile& file) {
  if (file.size() <= kHashedBytes) {
    Bytes bytes(file.size());
    PULSE_RETURN_IF_ERROR(file.ReadAt(0, bytes));
    return DigestOf(bytes).Hex();
  }
  const DirectoryEntry& entry = file.entry();
  if (HasCoarseTime(entry)) {
    PULSE_ASSIGN_OR_RETURN(const ByteView bytes, file.Map());
    return TensorDigest(bytes).Hex();
  }
  return fmt::format("{:x}-{:x}-{:x}", entry.file_id, entry.modified_unix_ns, entry.bytes);
}

}  // namespace

bool HasCoarseTime(const DirectoryEntry& entry) {
  return entry.modified_unix_ns % 1'000'000 == 0;
}

Status RefuseSymlinks(Filesystem& fs, const std::string& root, std::string_view key) {
  for (size_t end = 0; end < key.size();) {
    end = std::min(key.find('/', end + 1), key.size());
    const std::string path = fmt::format("{}/{}", root, key.substr(0, end));
    const Status status = fs.ReadSymlink(path).status();
    if (status.ok()) {
      return PermissionDenied(
          "{} is a symlink, and a store does not follow those; put a real {} there", path,
          end == key.size() ? "file" : "folder");
    }
    if (absl::IsNotFound(status)) return OkStatus();  // nothing lies deeper either
    if (!absl::IsInvalidArgument(status)) return status;
  }
  return OkStatus();
}

StatusOr<ObjectInfo> DescribeFile(std::string_view key, const ReadableFile& file) {
  PULSE_ASSIGN_OR_RETURN(std::string etag, EtagOf(file));
  return ObjectInfo{std::string(key), file.size(), file.entry().modified_unix_ns, std::move(etag)};
}

}  // namespace pulse
