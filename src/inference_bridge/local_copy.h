// The version that lies at an output, as far as it can be believed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/log.h"
#include "store/filesystem.h"
#include "sync/chain.h"
#include "sync/checkpoint.h"

namespace pulse {

// What a follower writes into the file's metadata.
inline constexpr char kFollowRunKey[] = "pulse.follow.run";
inline constexpr char kFollowVersionKey[] = "pulse.follow.version";  // VersionId::Folder()
inline constexpr char kFollowDigestKey[] = "pulse.follow.digest";    // of the view

std::map<std::string, std::string> FollowMetadata(const std::string& run,
                                                  const LocalVersion& version);

// One file, mapped, whose bytes have been found to have the digest that it claims. Which version
// that is remains its own claim: the bucket's history has to confirm it.
class LocalCopy {
 public:
  // Reads the whole file once. Without a value: there is none at `path`, or one that no follower of
  // `run` wrote (logged). kDataLoss: it claims to be a version and is not. Other errors are the
  // file system's.
  static StatusOr<std::unique_ptr<LocalCopy>> Verify(Filesystem& fs, const std::string& path,
                                                     const std::string& run, Logger& log);
  // Takes the caller's word for it that the file at `path` was just written as `version`.
  static StatusOr<std::unique_ptr<LocalCopy>> Trust(Filesystem& fs, const std::string& path,
                                                    const LocalVersion& version);

  const LocalVersion& version() const { return version_; }
  const ViewSource& view() const { return view_; }
  // Whether the name still stands for the very file, unchanged as far as size and times tell.
  StatusOr<bool> IsStillAt(Filesystem& fs, const std::string& path) const;

 private:
  LocalCopy(std::unique_ptr<Checkpoint> checkpoint, DirectoryEntry entry)
      : checkpoint_(std::move(checkpoint)), entry_(std::move(entry)), view_(checkpoint_->view()) {}
  static StatusOr<std::unique_ptr<LocalCopy>> Open(Filesystem& fs, const std::string& path);

  std::unique_ptr<Checkpoint> checkpoint_;
  DirectoryEntry entry_;
  ModelViewSource view_;
  LocalVersion version_;
};

}  // namespace pulse
