#include "store/file_store.h"

#include "store/durable_folders.h"
#include "store/file_listing.h"
#include "store/file_object.h"
#include "store/temporary_file.h"

namespace pulse {
namespace {

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

class FileStore final : public Store {
 public:
  FileStore(const FileStoreOptions& options, Filesystem& fs, const Clock& clock)
      : options_(options),
        fs_(fs),
        clock_(clock),
        uri_("file://" + options.root),
        temporaries_(fs, clock),
        folders_(fs, options.root) {}

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

  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override;
  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override;
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override;
  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override;
  Status Delete(std::string_view key) override;

 private:
  std::string PathOf(std::string_view key) const {
    return fmt::format("{}/{}", options_.root, key);
  }
  std::string FolderOf(std::string_view key) const {
    const size_t slash = key.rfind('/');
    return slash == std::string_view::npos ? options_.root : PathOf(key.substr(0, slash));
  }

  StatusOr<std::unique_ptr<ReadableFile>> Open(std::string_view key);
  // Null where the file system has no locks.
  StatusOr<std::unique_ptr<FileLock>> LockFolder(const std::string& folder);
  Status Commit(std::string_view key, const PutCondition& condition, TemporaryFile& temporary);
  Status CheckMatch(std::string_view key, const std::string& etag, bool locked);
  Status Link(std::string_view key, TemporaryFile& temporary, bool locked);
  Status Rename(std::string_view key, TemporaryFile& temporary);
  Status RemoveLocked(const std::string& path, const std::string& folder);

  const FileStoreOptions options_;
  Filesystem& fs_;
  const Clock& clock_;
  const std::string uri_;
  TemporaryFiles temporaries_;
  DurableFolders folders_;
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

StatusOr<Object> FileStore::Get(std::string_view key, uint64_t max_bytes) {
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

Status FileStore::ReadAt(std::string_view key, uint64_t offset, ByteSpan out) {
  PULSE_ASSIGN_OR_RETURN(const auto file, Open(key));
  if (offset > file->size() || out.size() > file->size() - offset) {
    return DataLoss("{}: object \"{}\" has {} bytes: can't read {} at {}", uri_, key, file->size(),
                    out.size(), offset);
  }
  return file->ReadAt(offset, out);
}

StatusOr<ListPage> FileStore::List(std::string_view prefix, std::string_view after, size_t limit,
                                   bool delimited) {
  if (limit == 0) return InvalidArgument("{}: list with a limit of 0: it must be positive", uri_);
  PageBuilder page(prefix, after, limit, delimited);
  PULSE_RETURN_IF_ERROR(ListFiles(fs_, options_.root, page));
  return page.Take();
}

StatusOr<std::unique_ptr<FileLock>> FileStore::LockFolder(const std::string& folder) {
  auto lock = fs_.Lock(fmt::format("{}/{}", folder, kLockName),
                       Deadline::After(clock_, options_.lock_timeout_ms));
  if (absl::IsUnimplemented(lock.status())) return nullptr;
  return lock;
}

StatusOr<ObjectInfo> FileStore::Put(std::string_view key, const ByteSource& source,
                                    const PutCondition& condition) {
  PULSE_RETURN_IF_ERROR(CheckKey(key));
  PULSE_RETURN_IF_ERROR(RefuseSymlinks(fs_, options_.root, key));
  auto temporary = temporaries_.Write(FolderOf(key), key, source);
  PULSE_RETURN_IF_ERROR(Annotate(temporary.status(), fmt::format("{}: put \"{}\"", uri_, key)));
  const Status committed = Commit(key, condition, *temporary);
  temporaries_.Discard(*temporary);
  PULSE_RETURN_IF_ERROR(committed);
  return std::move(temporary->info);
}

// Gives the file its name if the condition holds, and makes that durable, all under the lock: so
// that what the next writer builds on is durable.
Status FileStore::Commit(std::string_view key, const PutCondition& condition,
                         TemporaryFile& temporary) {
  const std::string folder = FolderOf(key);
  PULSE_ASSIGN_OR_RETURN(const auto lock, LockFolder(folder));
  const bool locked = lock != nullptr;
  if (condition.kind == PutCondition::Kind::kIfMatch) {
    PULSE_RETURN_IF_ERROR(CheckMatch(key, condition.etag, locked));
  }
  PULSE_RETURN_IF_ERROR(condition.kind == PutCondition::Kind::kIfAbsent
                            ? Link(key, temporary, locked)
                            : Rename(key, temporary));
  const Status synced = folders_.Sync(folder);
  return synced.ok() ? synced : OutcomeUnknown(synced);
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

Status FileStore::Link(std::string_view key, TemporaryFile& temporary, bool locked) {
  const std::string path = PathOf(key);
  const Status linked = fs_.Link(temporary.path, path);
  const auto there =
      linked.ok() ? StatusOr<DirectoryEntry>(Cancelled("not asked")) : fs_.Stat(path);
  // A server that is asked twice, because its answer got lost, finds the link that it made.
  if (linked.ok() || (there.ok() && there->file_id == temporary.file_id)) {
    temporaries_.Discard(temporary);
    return OkStatus();
  }
  if (there.ok() && there->kind == DirectoryEntry::Kind::kDirectory) {
    return InvalidArgument("{}: put \"{}\": a folder has this name", uri_, key);
  }
  if (there.ok()) return Aborted("{}: put \"{}\" if absent: it exists", uri_, key);
  if (absl::IsUnimplemented(linked) && absl::IsNotFound(there.status())) {
    if (locked) return Rename(key, temporary);
    return Unimplemented(
        "{}: its file system has neither links nor locks, so a put can't depend on the absence of "
        "an "
        "object",
        uri_);
  }
  if (absl::IsAlreadyExists(linked)) {
    return Aborted("{}: put \"{}\" if absent: it existed until just now", uri_, key);
  }
  return SurelyNothingDone(linked) ? linked : OutcomeUnknown(linked);
}

Status FileStore::Rename(std::string_view key, TemporaryFile& temporary) {
  const std::string path = PathOf(key);
  const Status renamed = fs_.Rename(temporary.path, path);
  const auto there =
      renamed.ok() ? StatusOr<DirectoryEntry>(Cancelled("not asked")) : fs_.Stat(path);
  if (renamed.ok() || (there.ok() && there->file_id == temporary.file_id)) {
    temporary.gone = true;
    return OkStatus();
  }
  if (absl::IsInvalidArgument(renamed)) {
    return InvalidArgument("{}: put \"{}\": a folder has this name", uri_, key);
  }
  return SurelyNothingDone(renamed) ? renamed : OutcomeUnknown(renamed);
}

Status FileStore::Delete(std::string_view key) {
  PULSE_RETURN_IF_ERROR(CheckKey(key));
  PULSE_RETURN_IF_ERROR(RefuseSymlinks(fs_, options_.root, key));
  const std::string path = PathOf(key);
  const auto entry = fs_.Stat(path);
  if (entry.ok()) {
    if (entry->kind == DirectoryEntry::Kind::kDirectory) return OkStatus();
    PULSE_RETURN_IF_ERROR(RemoveLocked(path, FolderOf(key)));
  } else if (!absl::IsNotFound(entry.status())) {
    return entry.status();
  }
  // Also where it was gone already: whoever removed it may not have got so far.
  return folders_.SyncNearest(FolderOf(key));
}

// Removes the object, the lock (whoever needs one makes it anew), and folders that this leaves
// empty.
Status FileStore::RemoveLocked(const std::string& path, const std::string& folder) {
  auto lock = LockFolder(folder);
  if (absl::IsNotFound(lock.status())) return OkStatus();  // the whole folder is gone
  PULSE_RETURN_IF_ERROR(lock.status());
  const Status removed = fs_.Remove(path);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  if (*lock != nullptr) fs_.Remove(fmt::format("{}/{}", folder, kLockName)).IgnoreError();
  lock->reset();
  // A folder that holds anything can't be removed, so there is nothing to check.
  std::string empty = folder;
  while (empty != options_.root && fs_.Remove(empty).ok()) empty.resize(empty.rfind('/'));
  return OkStatus();
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
