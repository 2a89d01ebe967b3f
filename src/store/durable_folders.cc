#include "store/durable_folders.h"

namespace pulse {
namespace {

// A bound for a list that would grow with every version; forgetting costs a few syncs.
constexpr size_t kMaxKnown = 1000;

}  // namespace

bool DurableFolders::Known(const std::string& folder, uint64_t file_id) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(folder);
  return found != known_.end() && found->second == file_id;
}

Status DurableFolders::Sync(const std::string& innermost) {
  PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs_, innermost));
  if (innermost == root_) return OkStatus();
  PULSE_ASSIGN_OR_RETURN(const DirectoryEntry entry, fs_.Stat(innermost));
  if (Known(innermost, entry.file_id)) return OkStatus();
  std::string folder = innermost;
  do {
    folder.resize(folder.rfind('/'));
    PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs_, folder));
  } while (folder != root_);
  const std::lock_guard lock(mutex_);
  if (known_.size() == kMaxKnown) known_.clear();
  known_[innermost] = entry.file_id;
  return OkStatus();
}

Status DurableFolders::SyncNearest(std::string folder) {
  while (true) {
    const Status synced = SyncDirectoryWherePossible(fs_, folder);
    if (!absl::IsNotFound(synced) || folder == root_) return synced;
    folder.resize(folder.rfind('/'));
  }
}

}  // namespace pulse
