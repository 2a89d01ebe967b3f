// From a foreign version and its base to a checkpoint, front to back.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/filesystem.h"
#include "sync/foreign/format.h"
#include "sync/view.h"

namespace pulse {

// What a version is applied to.
struct ForeignBase {
  const ViewSource* view = nullptr;     // null: nothing
  std::optional<Digest> digest = {};    // of the view, where it is known
  std::optional<uint64_t> number = {};  // none: it is the receiver's own model, for a full version
};

struct ForeignRebuildOptions {
  std::map<std::string, std::string> metadata = {};  // of the checkpoint
  std::optional<Digest> expected = {};               // of the view; beside what the version says
  // Bytes of the view made so far; an error ends the work with it.
  std::function<Status(uint64_t)> on_bytes = {};
};

// The digests of what `version` makes of the base; nothing is written.
// kFailedPrecondition: it is a delta of another version than the base. kDataLoss: the change is
// damaged, or gives other bits than its writer had. The store's errors.
StatusOr<ViewDigests> DigestForeignVersion(const ForeignVersion& version, const ForeignBase& base,
                                           const ForeignRebuildOptions& options);

// Writes it to a new checkpoint at `path`, atomically and durably; on an error nothing is left.
StatusOr<ViewDigests> RebuildForeignVersion(Filesystem& fs, const std::string& path,
                                            const ForeignVersion& version, const ForeignBase& base,
                                            const ForeignRebuildOptions& options);

}  // namespace pulse
