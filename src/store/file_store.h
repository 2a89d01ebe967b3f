// A store in a folder of a file system, local or shared: each object a plain file, its key the
// path.
//
// A put writes a temporary file beside its place, syncs it, and gives it its name at one stroke (a
// link for kIfAbsent, a rename otherwise) under the lock of that folder; then the folders are
// synced. So readers see the old or the new object, whole, and so does a machine that lost power.
// An object may be seen shortly before it is durable: only the put's return says that it is.
#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "store/filesystem.h"
#include "store/store.h"

namespace pulse {

struct FileStoreOptions {
  std::string root;     // absolute
  bool create = false;  // make the root if it is missing
  // How long a put or delete waits for others in its folder. They hold the lock for a few fsyncs;
  // half a minute says that a process was stopped while it held it.
  int64_t lock_timeout_ms = 30'000;
};

// uri: "file://" + root. The deps must outlive the store. kNotFound without a root (unless create),
// kInvalidArgument if it is relative or no folder.
//
// Beyond store.h: a key can't be both an object and a folder ("a" and "a/b": kInvalidArgument).
// Symlinks below the root are not followed: kPermissionDenied, and not listed; the root may be one.
// List gives no etags. Several processes, on several hosts if the file system's locks and links
// reach across them (ext4, XFS, NFS: yes; see ProbeFileGuarantees), may use one root, or roots
// inside another.
StatusOr<std::unique_ptr<Store>> OpenFileStore(const FileStoreOptions& options, Filesystem& fs,
                                               const Clock& clock);

// What the file system under a folder can do. Without locks kIfMatch is refused, and without links
// kIfAbsent is kept under the lock instead; without folder_sync a finished put may be lost in a
// power cut; without fine_times Stat reads large objects for their etag.
struct FileGuarantees {
  bool links = false;
  bool locks = false;
  bool folder_sync = false;
  bool fine_times = false;
};

// Tries each with temporary files in `folder`, which it removes. kPermissionDenied if it can't
// write.
StatusOr<FileGuarantees> ProbeFileGuarantees(const std::string& folder, Filesystem& fs,
                                             const Clock& clock);

// Removes temporary files below `root` that were last written at least min_age_ns ago (a put writes
// its own at least every few seconds, so an hour is safe unless clocks differ), and empty folders
// as old. Returns how many files it removed. What others use or have removed meanwhile is left
// alone.
StatusOr<uint64_t> RemoveStaleTemporaries(const std::string& root, int64_t min_age_ns,
                                          Filesystem& fs, const Clock& clock);

}  // namespace pulse
