#include "inference_bridge/local_copy.h"

namespace pulse {
namespace {

bool SameFile(const DirectoryEntry& a, const DirectoryEntry& b) {
  return a.file_id == b.file_id && a.bytes == b.bytes && a.modified_unix_ns == b.modified_unix_ns;
}

// nullopt unless all that a follower of `run` writes is there and well formed.
std::optional<LocalVersion> ClaimOf(const std::map<std::string, std::string>& metadata,
                                    const std::string& run) {
  const auto value = [&](const char* key) {
    const auto at = metadata.find(key);
    return at == metadata.end() ? std::string() : at->second;
  };
  const auto id = VersionId::FromFolder(value(kFollowVersionKey));
  const auto digest = Digest::FromHex(value(kFollowDigestKey));
  if (value(kFollowRunKey) != run || !id || !digest.ok()) return std::nullopt;
  return LocalVersion{*id, *digest};
}

}  // namespace

std::map<std::string, std::string> FollowMetadata(const std::string& run,
                                                  const LocalVersion& version) {
  // Transformers refuses files without a "format" that it knows.
  return {{"format", "pt"},
          {kFollowRunKey, run},
          {kFollowVersionKey, version.id.Folder()},
          {kFollowDigestKey, version.digest.Hex()}};
}

StatusOr<std::unique_ptr<LocalCopy>> LocalCopy::Open(Filesystem& fs, const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(DirectoryEntry before, fs.Stat(path));
  PULSE_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Open(fs, path));
  PULSE_ASSIGN_OR_RETURN(const DirectoryEntry after, fs.Stat(path));
  if (!SameFile(before, after)) {
    return Unavailable("{} was replaced while it was opened: does something else write it?", path);
  }
  return std::unique_ptr<LocalCopy>(new LocalCopy(std::move(checkpoint), std::move(before)));
}

StatusOr<std::unique_ptr<LocalCopy>> LocalCopy::Verify(Filesystem& fs, const std::string& path,
                                                       const std::string& run, Logger& log) {
  auto copy = Open(fs, path);
  if (absl::IsNotFound(copy.status())) return nullptr;
  if (absl::IsDataLoss(copy.status()) || absl::IsUnimplemented(copy.status()) ||
      absl::IsInvalidArgument(copy.status())) {
    log.warn("{} is not a file that a follower wrote, and will be replaced: {}", path,
             ToStd(copy.status().message()));
    return nullptr;
  }
  PULSE_RETURN_IF_ERROR(copy.status());
  const auto claim = ClaimOf((*copy)->checkpoint_->metadata(), run);
  if (!claim) {
    log.warn("{} is not a version of run \"{}\" that a follower wrote, and will be replaced", path,
             run);
    return nullptr;
  }
  PULSE_ASSIGN_OR_RETURN(const ViewDigests digests, ComputeDigests((*copy)->view_));
  if (digests.view != claim->digest) {
    return DataLoss("{} claims to be version {} with the digest {}, but its bytes have {}", path,
                    claim->id.number, claim->digest.Hex(), digests.view.Hex());
  }
  (*copy)->version_ = *claim;
  return copy;
}

StatusOr<std::unique_ptr<LocalCopy>> LocalCopy::Trust(Filesystem& fs, const std::string& path,
                                                      const LocalVersion& version) {
  PULSE_ASSIGN_OR_RETURN(auto copy, Open(fs, path));
  copy->version_ = version;
  return copy;
}

StatusOr<bool> LocalCopy::IsStillAt(Filesystem& fs, const std::string& path) const {
  const auto now = fs.Stat(path);
  if (absl::IsNotFound(now.status())) return false;
  PULSE_RETURN_IF_ERROR(now.status());
  return SameFile(*now, entry_);
}

}  // namespace pulse
