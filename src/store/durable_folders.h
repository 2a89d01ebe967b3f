// Sees to it that a file's name survives a power failure, and with it the names of its folders.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "store/filesystem.h"

namespace pulse {

// For the folders below one root, which itself must be durable. Thread-safe.
class DurableFolders {
 public:
  DurableFolders(Filesystem& fs, std::string root) : fs_(fs), root_(std::move(root)) {}

  // Syncs the names in `folder` (root or below), and the folder's own name up to the root: also
  // those that others made, who may not have synced them yet. A sync costs milliseconds even when
  // there is nothing to write, so once this object has done it, only the innermost is synced for as
  // long as it is the same folder.
  Status Sync(const std::string& folder);

  // Syncs the names in `folder` or, where that was removed, in the folder around it.
  Status SyncNearest(std::string folder);

 private:
  bool Known(const std::string& folder, uint64_t file_id);

  Filesystem& fs_;
  const std::string root_;
  std::mutex mutex_;
  std::map<std::string, uint64_t> known_;  // file ids of folders; guarded by mutex_
};

}  // namespace pulse
