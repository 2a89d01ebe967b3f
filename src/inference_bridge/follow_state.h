// What a follower must not forget: the newest version that it has seen in the bucket, so that it
// notices when the bucket goes back.
#pragma once

#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/status.h"
#include "store/filesystem.h"
#include "sync/version.h"

namespace pulse {

struct FollowState {
  std::string run;
  std::string holder;              // who works on the output, or did last: "pid 17 on host a"
  std::optional<VersionRef> seen;  // not always in place yet
  friend bool operator==(const FollowState&, const FollowState&) = default;
};

// Canonical JSON with the SHA-256 of itself. docs/format.md lists the members.
std::string SerializeFollowState(const FollowState& state);

// kDataLoss for anything but the exact bytes that SerializeFollowState writes.
StatusOr<FollowState> ParseFollowState(ByteView bytes);

// nullopt if there is no such file. kDataLoss names the file and what to do.
StatusOr<std::optional<FollowState>> LoadFollowState(Filesystem& fs, const std::string& path);

// Atomic and durable.
Status StoreFollowState(Filesystem& fs, const std::string& path, const FollowState& state);

}  // namespace pulse
