// A file system in memory that forgets what was not synced: the test double for crashes.
//
// It promises no more than POSIX does. A file's contents are durable up to its last Sync; a name
// (made, renamed, linked or removed) is durable once its folder was synced, and only if the folder
// itself can still be reached. So a name may survive without the contents, and contents without a
// name.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "store/filesystem.h"

namespace pulse {

// Thread-safe. Starts with an empty "/"; relative paths start there too. Behaves like the posix
// one, which filesystem_test.cc checks, except that file ids are never used again. Waiting for a
// lock ends when it is free or when the deadline's clock says so, which a virtual clock won't by
// itself.
class UnsyncedFilesystem final : public Filesystem {
 public:
  // The clock gives times of modification and must outlive it.
  explicit UnsyncedFilesystem(const Clock& clock);
  ~UnsyncedFilesystem() override;

  // The machine loses power and starts again. Everything unsynced is gone and all locks are free.
  // Files open for reading stay what they were; those open for writing give kUnavailable from now
  // on.
  void Crash();

  // The same, but real file systems may have written more than was asked for. For each thing that
  // was not synced, `seed` draws whether it survives: of an append a part, or a part and then
  // zeros; of changed names any subset, each change (both halves of a rename) wholly or not at all.
  void CrashKeepingSome(uint64_t seed);

  // One line for each thing that Crash() would undo: for a test's failure message.
  std::vector<std::string> Unsynced() const;

  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  StatusOr<DirectoryEntry> Stat(const std::string& path) override;
  StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override;
  Status CreateDirectories(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Link(const std::string& from, const std::string& to) override;
  Status Symlink(const std::string& target, const std::string& path) override;
  StatusOr<std::string> ReadSymlink(const std::string& path) override;
  Status Remove(const std::string& path) override;
  StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, Deadline deadline) override;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct Place;       // a name in a folder, and what it stands for
  struct NameChange;  // of one name, not yet synced
  class OpenForWriting;
  class Held;

  using Contents = std::shared_ptr<Bytes>;  // copied before a change where others hold it too

  StatusOr<Place> Find(const std::string& path, std::string_view call, bool follow) const;
  StatusOr<NodePtr> FindExisting(const std::string& path, std::string_view call, bool follow) const;
  NodePtr MakeNode(DirectoryEntry::Kind kind);
  void SetName(const NodePtr& folder, const std::string& name, NodePtr node);
  void SyncNames(const NodePtr& folder);
  Status CheckReplaceable(const Place& from, const Place& to, std::string_view what) const;
  // The files hold what `contents` gives for them, the folders what was synced.
  void CrashLocked(const std::function<Contents(const Node&)>& contents);
  NodePtr Survivor(const NodePtr& node, const std::function<Contents(const Node&)>& contents,
                   std::map<const Node*, NodePtr>& survivors);
  void Report(const Node& folder, const std::string& path, std::vector<std::string>& lines) const;

  const Clock& clock_;
  mutable std::mutex mutex_;  // guards all that follows, and every Node
  std::condition_variable unlocked_;
  NodePtr root_;
  std::vector<NameChange> changes_;  // in order; those of one operation share its number
  uint64_t operation_ = 0;
  uint64_t last_id_ = 0;
  int64_t last_modified_ns_ = 0;
  uint64_t crashes_ = 0;
};

}  // namespace pulse
