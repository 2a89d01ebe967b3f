// What a file store needs of a file system, tried out; and what crashed puts left, cleared away.
#include "store/file_object.h"
#include "store/file_store.h"

namespace pulse {
namespace {

// Whether the call worked; an error only if it failed otherwise than for being unsupported.
StatusOr<bool> Works(const Status& status) {
  if (absl::IsUnimplemented(status)) return false;
  PULSE_RETURN_IF_ERROR(status);
  return true;
}

// Writes to `file`, called `name`, and makes name + "-link" and name + "-lock".
StatusOr<FileGuarantees> Probe(const std::string& folder, const std::string& name, Filesystem& fs,
                               const Clock& clock, WritableFile& file) {
  FileGuarantees can;
  PULSE_RETURN_IF_ERROR(file.Sync());
  PULSE_RETURN_IF_ERROR(file.Close());
  PULSE_ASSIGN_OR_RETURN(const DirectoryEntry entry, fs.Stat(name));
  can.fine_times = !HasCoarseTime(entry);
  PULSE_ASSIGN_OR_RETURN(can.folder_sync, Works(fs.SyncDirectory(folder)));
  const Status linked = fs.Link(name, name + "-link");
  if (!absl::IsAlreadyExists(linked)) {  // a probe that was killed may have left one
    PULSE_ASSIGN_OR_RETURN(can.links, Works(linked));
  }
  // A link that replaces what is there would be of no use.
  if (!absl::IsUnimplemented(linked)) {
    can.links = absl::IsAlreadyExists(fs.Link(name, name + "-link"));
  }
  const auto lock = fs.Lock(name + "-lock", Deadline::After(clock, 0));
  PULSE_ASSIGN_OR_RETURN(can.locks, Works(lock.status()));
  return can;
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
  for (int attempt = 0;; ++attempt) {
    const std::string name =
        fmt::format("{}/{}probe-{:x}-{}", folder, kTemporaryPrefix, clock.UnixNs(), attempt);
    const auto file = fs.Create(name);
    if (absl::IsAlreadyExists(file.status()))
      continue;  // another's, or left by one that was killed
    PULSE_RETURN_IF_ERROR(file.status());
    auto can = Probe(folder, name, fs, clock, **file);
    for (const char* suffix : {"-link", "-lock", ""}) fs.Remove(name + suffix).IgnoreError();
    return can;
  }
}

StatusOr<uint64_t> RemoveStaleTemporaries(const std::string& root, int64_t min_age_ns,
                                          Filesystem& fs, const Clock& clock) {
  PULSE_RETURN_IF_ERROR(fs.Stat(root).status());
  StaleFinder finder(fs, clock.UnixNs() - min_age_ns);
  PULSE_RETURN_IF_ERROR(finder.Visit(root).status());
  return finder.removed();
}

}  // namespace pulse
