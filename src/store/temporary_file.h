// An object on its way into a file store: written and synced beside its place, under a name that is
// no key, and not yet to be seen.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "core/clock.h"
#include "store/filesystem.h"
#include "store/store.h"

namespace pulse {

struct TemporaryFile {
  std::string path;
  ObjectInfo info;  // what the object will be, under whatever name
  uint64_t file_id = 0;
  bool gone = false;  // moved to its place, or removed
};

// Makes temporary files for one store; thread-safe.
class TemporaryFiles {
 public:
  TemporaryFiles(Filesystem& fs, const Clock& clock) : fs_(fs), clock_(clock) {}

  // A file in `folder` (made if missing) with the contents of `source`, read in order in bounded
  // pieces; durable, its name excepted. On error nothing is left, but perhaps the folder.
  // kInvalidArgument if a part of the folder's path is a file.
  StatusOr<TemporaryFile> Write(const std::string& folder, std::string_view key,
                                const ByteSource& source);

  // Removes the name, unless it is gone; what can't be removed RemoveStaleTemporaries will find.
  // (Not in a destructor: an operation may throw a SimulatedKill.)
  void Discard(TemporaryFile& file);

 private:
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& folder, std::string& path);

  Filesystem& fs_;
  const Clock& clock_;
  std::atomic<uint64_t> made_ = 0;
};

}  // namespace pulse
