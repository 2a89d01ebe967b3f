// What a file store needs of a file system, tried out; and what crashed puts left, cleared away.
#include "store/file_object.h"
#include "store/file_store.h"

namespace pulse {
namespace {

// Removes the names it was told of.
class Cleanup {
 public:
  explicit Cleanup(Filesystem& fs) : fs_(fs) {}
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;
  ~Cleanup() {
    for (const std::string& path : paths_) fs_.Remove(path).IgnoreError();
  }
  void Add(std::string path) { paths_.push_back(std::move(path)); }

 private:
  Filesystem& fs_;
  std::vector<std::string> paths_;
};

// Whether the call worked; an error only if it failed otherwise than for being unsupported.
StatusOr<bool> Works(const Status& status) {
  if (absl::IsUnimplemented(status)) return false;
  PULSE_RETURN_IF_ERROR(status);
  return true;
}

class StaleFinder {
 public:
  StaleFinder(Filesystem& fs, int64_t before_unix_ns) : fs_(fs), before_(before_unix_ns) {}

  uint64_t removed() const { return removed_; }

  // Clears `folder`. True when nothing in it stays but perhaps a lock.
  StatusOr<bool> Visit(const std::string& folder) {
    const auto entries = fs_.List(folder);
    if (absl::IsNotFound(entries.status())) return false;  // removed meanwhile
    PULSE_RETURN_IF_ERROR(entries.status());
    bool empty = true;
    for (const DirectoryEntry& entry : *entries) {
      if (entry.name == kLockName) continue;
      PULSE_ASSIGN_OR_RETURN(const bool gone, VisitEntry(folder + "/" + entry.name, entry));
      empty = empty && gone;
    }
    return empty;
  }

 private:
  StatusOr<bool> VisitEntry(const std::string& path, const DirectoryEntry& entry) {
    const bool old = entry.modified_unix_ns <= before_;
    if (entry.kind == DirectoryEntry::Kind::kDirectory) {
      PULSE_ASSIGN_OR_RETURN(const bool empty, Visit(path));
      return empty && old && RemoveFolder(path);
    }
    if (!old || !std::string_view(entry.name).starts_with(kTemporaryPrefix)) return false;
    const Status status = fs_.Remove(path);
    if (absl::IsNotFound(status)) return true;
    PULSE_RETURN_IF_ERROR(status);
    ++removed_;
    return true;
  }

  // A lock may only be removed by its holder; if it is held, the folder is in use.
  bool RemoveFolder(const std::string& path) {
    const std::string lock_path = fmt::format("{}/{}", path, kLockName);
    const VirtualClock now;
    if (auto lock = fs_.Lock(lock_path, Deadline::After(now, 0)); lock.ok()) {
      fs_.Remove(lock_path).IgnoreError();
    }
    return fs_.Remove(path).ok();
  }

  Filesystem& fs_;
  const int64_t before_;
  uint64_t removed_ = 0;
};

}  // namespace

StatusOr<FileGuarantees> ProbeFileGuarantees(const std::string& folder, Filesystem& fs,
                                             const Clock& clock) {
  const std::string first =
      fmt::format("{}/{}probe-{:x}", folder, kTemporaryPrefix, clock.UnixNs());
  const std::string second = first + "-link", locked = first + "-lock";
  FileGuarantees can;
  Cleanup cleanup(fs);
  PULSE_ASSIGN_OR_RETURN(auto file, fs.Create(first));
  cleanup.Add(first);
  PULSE_RETURN_IF_ERROR(file->Sync());
  PULSE_RETURN_IF_ERROR(file->Close());
  PULSE_ASSIGN_OR_RETURN(const DirectoryEntry entry, fs.Stat(first));
  can.fine_times = entry.modified_unix_ns % 1'000'000 != 0;
  PULSE_ASSIGN_OR_RETURN(can.folder_sync, Works(fs.SyncDirectory(folder)));
  PULSE_ASSIGN_OR_RETURN(can.links, Works(fs.Link(first, second)));
  if (can.links) {
    cleanup.Add(second);
    can.links = absl::IsAlreadyExists(fs.Link(first, second));  // else it replaces, and is no use
  }
  const auto lock = fs.Lock(locked, Deadline::After(clock, 0));
  PULSE_ASSIGN_OR_RETURN(can.locks, Works(lock.status()));
  cleanup.Add(locked);
  return can;
}

StatusOr<uint64_t> RemoveStaleTemporaries(const std::string& root, int64_t min_age_ns,
                                          Filesystem& fs, const Clock& clock) {
  PULSE_RETURN_IF_ERROR(fs.Stat(root).status());
  StaleFinder finder(fs, clock.UnixNs() - min_age_ns);
  PULSE_RETURN_IF_ERROR(finder.Visit(root).status());
  return finder.removed();
}

}  // namespace pulse
