#include "store/file_store.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "store/file_listing.h"
#include "store/file_object.h"

namespace pulse {
namespace {

// Pieces in which a source is read and written: large enough that calls cost nothing, small enough
// for many puts at once.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
// A put whose folder keeps vanishing (others deleting its last object) tries this often to be
// first.
constexpr int kFolderAttempts = 100;
// A bound for a list that would grow with every version; forgetting costs a few fsyncs.
constexpr size_t kMaxKnownFolders = 1000;

// After this point the put may be visible, whatever failed.
Status OutcomeUnknown(const Status& status) {
  return Unavailable("{}; the put may have happened: read again", ToStd(status.message()));
}

// Errors of a rename or link that say for certain that nothing was done. Not so kNotFound: a
// network file system that asks twice may report it for a rename that it did.
bool SurelyNothingDone(const Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

// A file that goes away unless it was given its place.
class Temporary {
 public:
  Temporary(Filesystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() { Remove(); }
  const std::string& path() const { return path_; }
  void Moved() { moved_ = true; }
  // Of the name: a link to the file stays. RemoveStaleTemporaries gets what can't be removed.
  void Remove() {
    if (!moved_) fs_.Remove(path_).IgnoreError();
    moved_ = true;
  }

 private:
  Filesystem& fs_;
  std::string path_;
  bool moved_ = false;
};

class FileStore final : public Store {
 public:
  FileStore(const FileStoreOptions& options, Filesystem& fs, const Clock& clock)
      : options_(options), fs_(fs), clock_(clock), uri_("file://" + options.root) {}

  const std::string& uri() const override { return uri_; }

  StatusOr<bool> HonoursConditions() override {
    PULSE_ASSIGN_OR_RETURN(const FileGuarantees can,
                           ProbeFileGuarantees(options_.root, fs_, clock_));
    return can.locks;
  }

  StatusOr<ObjectInfo> Stat(std::string_view key) override {
    PULSE_ASSIGN_OR_RETURN(const auto file, Open(key));
    return DescribeFile(key, *file);
  }

  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    PULSE_ASSIGN_OR_RETURN(const auto file, Open(key));
    if (file->size() > max_bytes) {
      return ResourceExhausted("{}: object \"{}\" has {} bytes, above the bound of {}", uri_, key,
                               file->size(), max_bytes);
    }
    Object object;
    object.bytes.resize(file->size());
    PULSE_RETURN_IF_ERROR(file->ReadAt(0, object.bytes));
    PULSE_ASSIGN_OR_RETURN(object.info, DescribeFile(key, *file));
    return object;
  }

  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
    PULSE_ASSIGN_OR_RETURN(const auto file, Open(key));
    if (offset > file->size() || out.size() > file->size() - offset) {
      return DataLoss("{}: object \"{}\" has {} bytes: can't read {} at {}", uri_, key,
                      file->size(), out.size(), offset);
    }
    return file->ReadAt(offset, out);
  }

  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override;
  Status Delete(std::string_view key) override;

  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override {
    if (limit == 0) return InvalidArgument("{}: list with a limit of 0: it must be positive", uri_);
    PageBuilder page(prefix, after, limit, delimited);
    PULSE_RETURN_IF_ERROR(ListFiles(fs_, options_.root, page));
    return page.Take();
  }

 private:
  std::string PathOf(std::string_view key) const {
    return fmt::format("{}/{}", options_.root, key);
  }
  std::string FolderOf(std::string_view key) const {
    const size_t slash = key.rfind('/');
    return slash == std::string_view::npos ? options_.root : PathOf(key.substr(0, slash));
  }

  StatusOr<std::unique_ptr<ReadableFile>> Open(std::string_view key);
  StatusOr<std::string> WriteTemporary(const std::string& folder, const ByteSource& source);
  StatusOr<std::unique_ptr<WritableFile>> CreateTemporary(const std::string& folder,
                                                          std::string& path);
  // Null where the file system has no locks.
  StatusOr<std::unique_ptr<FileLock>> LockFolder(const std::string& folder);
  Status Commit(std::string_view key, const PutCondition& condition, Temporary& temporary,
                bool locked);
  Status CommitIfAbsent(std::string_view key, Temporary& temporary, bool locked);
  Status CheckMatch(std::string_view key, const std::string& etag, bool locked);
  Status Rename(std::string_view key, Temporary& temporary);
  Status SyncFoldersOf(std::string_view key);
  void RemoveEmptyFolders(std::string& folder);

  const FileStoreOptions options_;
  Filesystem& fs_;
  const Clock& clock_;
  const std::string uri_;
  std::atomic<uint64_t> temporaries_ = 0;
  std::mutex mutex_;
  // Folders whose names are durable up to the root, with their file ids. Guarded by mutex_.
  std::map<std::string, uint64_t> durable_folders_;
};

StatusOr<std::unique_ptr<ReadableFile>> FileStore::Open(std::string_view key) {
  PULSE_RETURN_IF_ERROR(CheckKey(key));
  PULSE_RETURN_IF_ERROR(RefuseSymlinks(fs_, options_.root, key));
  auto file = fs_.Open(PathOf(key));
  // kInvalidArgument: a folder has that name.
  if (absl::IsNotFound(file.status()) || absl::IsInvalidArgument(file.status())) {
    return NotFound("{}: no object \"{}\"", uri_, key);
  }
  return file;
}

StatusOr<std::unique_ptr<WritableFile>> FileStore::CreateTemporary(const std::string& folder,
                                                                   std::string& path) {
  for (int attempt = 1;; ++attempt) {
    PULSE_RETURN_IF_ERROR(fs_.CreateDirectories(folder));
    do {  // another process may have thought of the same name
      path = fmt::format("{}/{}{:x}-{}", folder, kTemporaryPrefix, clock_.UnixNs(), temporaries_++);
      auto file = fs_.Create(path);
      if (absl::IsAlreadyExists(file.status())) continue;
      // The folder may have been removed since, being empty.
      if (absl::IsNotFound(file.status()) && attempt < kFolderAttempts) break;
      return file;
    } while (true);
  }
}

StatusOr<std::string> FileStore::WriteTemporary(const std::string& folder,
                                                const ByteSource& source) {
  std::string path;
  PULSE_ASSIGN_OR_RETURN(const auto file, CreateTemporary(folder, path));
  const auto write = [&]() -> Status {
    Bytes piece(std::min(source.size(), kPieceBytes));
    for (uint64_t at = 0; at < source.size(); at += piece.size()) {
      piece.resize(std::min<uint64_t>(piece.size(), source.size() - at));
      PULSE_RETURN_IF_ERROR(source.Read(at, piece));
      PULSE_RETURN_IF_ERROR(file->Append(piece));
    }
    PULSE_RETURN_IF_ERROR(file->Sync());
    return file->Close();
  };
  if (const Status status = write(); !status.ok()) {
    fs_.Remove(path).IgnoreError();
    return status;
  }
  return path;
}

StatusOr<ObjectInfo> FileStore::Put(std::string_view key, const ByteSource& source,
                                    const PutCondition& condition) {
  PULSE_RETURN_IF_ERROR(CheckKey(key));
  PULSE_RETURN_IF_ERROR(RefuseSymlinks(fs_, options_.root, key));
  const std::string folder = FolderOf(key);
  auto path = WriteTemporary(folder, source);
  PULSE_RETURN_IF_ERROR(Annotate(path.status(), fmt::format("{}: put \"{}\"", uri_, key)));
  Temporary temporary(fs_, *std::move(path));
  PULSE_ASSIGN_OR_RETURN(const auto file, fs_.Open(temporary.path()));
  PULSE_ASSIGN_OR_RETURN(ObjectInfo info, DescribeFile(key, *file));

  PULSE_ASSIGN_OR_RETURN(const auto lock, LockFolder(folder));
  PULSE_RETURN_IF_ERROR(Commit(key, condition, temporary, lock != nullptr));
  // Under the lock, so that what the next writer builds on is durable.
  if (const Status status = SyncFoldersOf(key); !status.ok()) return OutcomeUnknown(status);
  return info;
}

StatusOr<std::unique_ptr<FileLock>> FileStore::LockFolder(const std::string& folder) {
  auto lock = fs_.Lock(fmt::format("{}/{}", folder, kLockName),
                       Deadline::After(clock_, options_.lock_timeout_ms));
  if (absl::IsUnimplemented(lock.status())) return nullptr;
  return lock;
}

Status FileStore::Commit(std::string_view key, const PutCondition& condition, Temporary& temporary,
                         bool locked) {
  if (condition.kind == PutCondition::Kind::kIfAbsent) {
    return CommitIfAbsent(key, temporary, locked);
  }
  if (condition.kind == PutCondition::Kind::kIfMatch) {
    PULSE_RETURN_IF_ERROR(CheckMatch(key, condition.etag, locked));
  }
  return Rename(key, temporary);
}

Status FileStore::CheckMatch(std::string_view key, const std::string& etag, bool locked) {
  if (!locked) {
    return Unimplemented("{}: its file system has no locks, so a put can't depend on an etag",
                         uri_);
  }
  const auto now = Stat(key);
  if (absl::IsNotFound(now.status())) {
    return Aborted("{}: put \"{}\" if its etag is {}: it is gone", uri_, key, etag);
  }
  PULSE_RETURN_IF_ERROR(now.status());
  if (now->etag == etag) return OkStatus();
  return Aborted("{}: put \"{}\" if its etag is {}: it is now {}", uri_, key, etag, now->etag);
}

Status FileStore::CommitIfAbsent(std::string_view key, Temporary& temporary, bool locked) {
  const std::string path = PathOf(key);
  const Status linked = fs_.Link(temporary.path(), path);
  if (linked.ok()) {
    temporary.Remove();
    return OkStatus();
  }
  if (!absl::IsAlreadyExists(linked) && !absl::IsUnimplemented(linked)) {
    return SurelyNothingDone(linked) ? linked : OutcomeUnknown(linked);
  }
  const auto there = fs_.Stat(path);
  if (there.ok()) {
    if (there->kind == DirectoryEntry::Kind::kDirectory) {
      return InvalidArgument("{}: put \"{}\": a folder has this name", uri_, key);
    }
    // A network file system that asks twice may find the link that it made.
    const auto ours = fs_.Stat(temporary.path());
    if (ours.ok() && ours->file_id == there->file_id) return OkStatus();
    return Aborted("{}: put \"{}\" if absent: it exists", uri_, key);
  }
  if (!absl::IsNotFound(there.status())) return there.status();
  if (absl::IsAlreadyExists(linked)) {
    return Aborted("{}: put \"{}\" if absent: it existed until just now", uri_, key);
  }
  if (!locked) {
    return Unimplemented(
        "{}: its file system has neither links nor locks, so a put can't depend on "
        "there being no object",
        uri_);
  }
  return Rename(key, temporary);
}

Status FileStore::Rename(std::string_view key, Temporary& temporary) {
  const Status status = fs_.Rename(temporary.path(), PathOf(key));
  if (status.ok()) {
    temporary.Moved();
    return OkStatus();
  }
  if (absl::IsInvalidArgument(status)) {
    return InvalidArgument("{}: put \"{}\": a folder has this name", uri_, key);
  }
  return SurelyNothingDone(status) ? status : OutcomeUnknown(status);
}

// From the object's folder up to the root, and not only those that this put made: another process
// may have made one and not yet synced it. Each costs milliseconds even when there is nothing to
// write, so where this store has done it before, for the same folder, only the innermost is synced.
Status FileStore::SyncFoldersOf(std::string_view key) {
  const std::string innermost = FolderOf(key);
  PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs_, innermost));
  if (innermost == options_.root) return OkStatus();
  PULSE_ASSIGN_OR_RETURN(const DirectoryEntry entry, fs_.Stat(innermost));
  {
    const std::lock_guard lock(mutex_);
    const auto known = durable_folders_.find(innermost);
    if (known != durable_folders_.end() && known->second == entry.file_id) return OkStatus();
  }
  std::string folder = innermost;
  do {
    folder.resize(folder.rfind('/'));
    PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs_, folder));
  } while (folder != options_.root);
  const std::lock_guard lock(mutex_);
  if (durable_folders_.size() == kMaxKnownFolders) durable_folders_.clear();
  durable_folders_[innermost] = entry.file_id;
  return OkStatus();
}

Status FileStore::Delete(std::string_view key) {
  PULSE_RETURN_IF_ERROR(CheckKey(key));
  PULSE_RETURN_IF_ERROR(RefuseSymlinks(fs_, options_.root, key));
  const std::string path = PathOf(key);
  const auto entry = fs_.Stat(path);
  if (absl::IsNotFound(entry.status())) return OkStatus();
  PULSE_RETURN_IF_ERROR(entry.status());
  if (entry->kind == DirectoryEntry::Kind::kDirectory) return OkStatus();

  std::string folder = FolderOf(key);
  auto lock = LockFolder(folder);
  if (absl::IsNotFound(lock.status())) return OkStatus();  // the whole folder is gone
  PULSE_RETURN_IF_ERROR(lock.status());
  const Status removed = fs_.Remove(path);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  if (*lock != nullptr) fs_.Remove(fmt::format("{}/{}", folder, kLockName)).IgnoreError();
  lock->reset();
  RemoveEmptyFolders(folder);
  const Status synced = SyncDirectoryWherePossible(fs_, folder);
  return absl::IsNotFound(synced) ? OkStatus() : synced;
}

// Removes `folder` and those around it that are empty, and sets it to the first that stays. A
// folder that holds anything can't be removed, so there is nothing to check.
void FileStore::RemoveEmptyFolders(std::string& folder) {
  while (folder != options_.root && fs_.Remove(folder).ok()) {
    {
      const std::lock_guard lock(mutex_);
      durable_folders_.erase(folder);
    }
    folder.resize(folder.rfind('/'));
  }
}

}  // namespace

StatusOr<std::unique_ptr<Store>> OpenFileStore(const FileStoreOptions& options, Filesystem& fs,
                                               const Clock& clock) {
  FileStoreOptions cleaned = options;
  while (cleaned.root.ends_with('/')) cleaned.root.pop_back();
  if (!cleaned.root.starts_with('/')) {
    return InvalidArgument("file store \"{}\": expected the absolute path of a folder below /",
                           options.root);
  }
  if (options.create) {
    PULSE_RETURN_IF_ERROR(Annotate(fs.CreateDirectories(cleaned.root), "file://" + cleaned.root));
  }
  const auto entry = fs.Stat(cleaned.root);
  if (absl::IsNotFound(entry.status())) {
    return NotFound("file://{}: there is no such folder: create it, or ask for its creation",
                    cleaned.root);
  }
  PULSE_RETURN_IF_ERROR(Annotate(entry.status(), "file://" + cleaned.root));
  if (entry->kind != DirectoryEntry::Kind::kDirectory) {
    return InvalidArgument("file://{}: this is not a folder", cleaned.root);
  }
  return std::make_unique<FileStore>(cleaned, fs, clock);
}

}  // namespace pulse
