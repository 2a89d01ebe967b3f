// The few file operations that durable state is built from, behind an interface so that tests can
// fail, kill and forget at each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/deadline.h"
#include "core/status.h"

namespace pulse {

struct DirectoryEntry {
  enum class Kind { kFile, kDirectory, kSymlink, kOther };
  std::string name;  // empty in ReadableFile::entry()
  Kind kind = Kind::kFile;
  uint64_t bytes = 0;  // of a file
  int64_t modified_unix_ns = 0;
  uint64_t file_id = 0;  // the inode: equal for two names of one file; used again after removal
};

// A file being written from its start, by one thread. Dropping it without Close() closes it and
// reports nothing; what was not synced may be lost in a crash.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(ByteView bytes) = 0;
  // Contents, size and time of modification are durable. That time is from now on one that no other
  // file had before (nanoseconds of the wall clock, where the file system keeps them).
  virtual Status Sync() = 0;
  virtual Status Close() = 0;
};

// An open file for reading at any offset; keeps its contents though the name be replaced.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;
  // Of this very file as it was when opened, whatever its name now stands for.
  virtual const DirectoryEntry& entry() const = 0;
  // Fills `out` from `offset`; kDataLoss if the file ends before. Thread-safe.
  virtual Status ReadAt(uint64_t offset, ByteSpan out) const = 0;
  // The whole file, mapped; valid while this object lives. Empty for an empty file. A file must not
  // be truncated while mapped: ours are never changed in place.
  virtual StatusOr<ByteView> Map() const = 0;
};

// An advisory lock between processes, held until destroyed (or until the process ends).
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// Thread-safe. Paths are UTF-8 bytes as the system takes them. Errors name call and path; codes as
// in ErrnoStatus. A created, renamed or removed *name* is durable only after SyncDirectory of its
// folder.
class Filesystem {
 public:
  virtual ~Filesystem() = default;

  virtual StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Makes a new file; kAlreadyExists if the name is taken.
  virtual StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Follows symlinks; kNotFound.
  virtual StatusOr<DirectoryEntry> Stat(const std::string& path) = 0;
  // In ascending order of name; kNotFound if there is no such folder.
  virtual StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) = 0;
  // With parents; OK if it exists. New names are made durable. kAlreadyExists if a part of the path
  // is a file; kNotFound if another removes a part meanwhile.
  virtual Status CreateDirectories(const std::string& path) = 0;
  // kUnimplemented where the file system can't.
  virtual Status SyncDirectory(const std::string& path) = 0;
  // Replaces `to` atomically; kFailedPrecondition if that is a folder and not empty.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // A second name for a file; kAlreadyExists if `to` is taken, atomically; kUnimplemented where the
  // file system has no links.
  virtual Status Link(const std::string& from, const std::string& to) = 0;
  virtual Status Symlink(const std::string& target, const std::string& path) = 0;
  virtual StatusOr<std::string> ReadSymlink(const std::string& path) = 0;
  // A file, symlink or empty folder; kNotFound; kFailedPrecondition for a folder that is not empty.
  virtual Status Remove(const std::string& path) = 0;
  // Waits for the exclusive lock on `path` (made if missing; its holder may Remove it);
  // kDeadlineExceeded; kUnimplemented where the file system has no locks.
  virtual StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, Deadline deadline) = 0;
};

// The machine's own.
std::unique_ptr<Filesystem> MakePosixFilesystem();

// SyncDirectory, but OK where the file system can't: nothing more can be done there, and a name may
// be lost in a power cut (never half a file).
Status SyncDirectoryWherePossible(Filesystem& fs, const std::string& path);

// The whole file; kResourceExhausted if it is larger than max_bytes.
StatusOr<Bytes> ReadFile(Filesystem& fs, const std::string& path, uint64_t max_bytes);

// All or nothing and durable: a temporary name beside `path`, synced, renamed over it, folder
// synced (if only that last step fails, the error comes with the new contents in place). The
// temporary name ends in ".tmp-<pid>-<counter>"; a crash may leave it, and no reader takes it.
Status WriteFileAtomically(Filesystem& fs, const std::string& path, ByteView bytes);

}  // namespace pulse
