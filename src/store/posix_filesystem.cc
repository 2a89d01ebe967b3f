#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>

#include "store/filesystem.h"

namespace pulse {
namespace {

constexpr mode_t kFileMode = 0666, kDirectoryMode = 0777;  // less the umask

Status CallError(int error, std::string_view call, const std::string& path) {
  return ErrnoStatus(error, fmt::format("{} {}", call, path));
}

Status Lacks(int error, std::string_view what, const std::string& path) {
  return Unimplemented("{}: this file system has no {} ({})", path, what,
                       std::generic_category().message(error));
}

// Calls again when a signal came between.
template <typename Call>
auto Uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// A file descriptor with an owner.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { Close(); }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Zero or an errno. On Linux the descriptor is gone even when the call was interrupted.
  int Close() {
    const int fd = std::exchange(fd_, -1);
    return fd >= 0 && ::close(fd) != 0 && errno != EINTR ? errno : 0;
  }

 private:
  int fd_;
};

DirectoryEntry EntryOf(const struct stat& st) {
  DirectoryEntry entry;
  entry.kind = S_ISREG(st.st_mode)   ? DirectoryEntry::Kind::kFile
               : S_ISDIR(st.st_mode) ? DirectoryEntry::Kind::kDirectory
               : S_ISLNK(st.st_mode) ? DirectoryEntry::Kind::kSymlink
                                     : DirectoryEntry::Kind::kOther;
  if (entry.kind == DirectoryEntry::Kind::kFile) entry.bytes = static_cast<uint64_t>(st.st_size);
  entry.modified_unix_ns = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
  entry.file_id = st.st_ino;
  return entry;
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status Append(ByteView bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          Uninterrupted([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
      if (written < 0) return CallError(errno, "write", path_);
      // A full disk may show as a short write first; the next one then says so.
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return OkStatus();
  }

  Status Sync() override {
    // The kernel's own time stamps move once a tick (1 to 10 ms) and inodes are used again at once,
    // so two successive files could look the same. Where times can't be set, they stay coarse.
    timespec times[2] = {{0, UTIME_OMIT}, {}};
    ::clock_gettime(CLOCK_REALTIME, &times[1]);
    ::futimens(fd_.get(), times);
    // Not called again after a failure: the kernel drops the pages it could not write.
    if (Uninterrupted([&] { return ::fsync(fd_.get()); }) != 0)
      return CallError(errno, "fsync", path_);
    return OkStatus();
  }

  Status Close() override {
    if (const int error = fd_.Close(); error != 0) return CallError(error, "close", path_);
    return OkStatus();
  }

 private:
  Fd fd_;
  std::string path_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(Fd fd, DirectoryEntry entry, std::string path)
      : fd_(std::move(fd)), entry_(std::move(entry)), path_(std::move(path)) {}
  ~PosixReadableFile() override {
    if (mapped_ != nullptr) ::munmap(mapped_, entry_.bytes);
  }

  uint64_t size() const override { return entry_.bytes; }
  const DirectoryEntry& entry() const override { return entry_; }

  Status ReadAt(uint64_t offset, ByteSpan out) const override {
    while (!out.empty()) {
      const ssize_t count = Uninterrupted(
          [&] { return ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
      if (count < 0) return CallError(errno, "read", path_);
      if (count == 0) {
        return DataLoss("{} ends at {}, {} bytes before it should", path_, offset, out.size());
      }
      offset += static_cast<uint64_t>(count);
      out = out.subspan(static_cast<size_t>(count));
    }
    return OkStatus();
  }

  StatusOr<ByteView> Map() const override {
    if (entry_.bytes == 0) return ByteView();
    const std::lock_guard lock(mutex_);
    if (mapped_ == nullptr) {
      void* at = ::mmap(nullptr, entry_.bytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
      if (at == MAP_FAILED) return CallError(errno, "mmap", path_);
      mapped_ = at;
    }
    return ByteView(static_cast<const uint8_t*>(mapped_), entry_.bytes);
  }

 private:
  Fd fd_;
  DirectoryEntry entry_;
  std::string path_;
  mutable std::mutex mutex_;
  mutable void* mapped_ = nullptr;  // guarded by mutex_
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(Fd fd) : fd_(std::move(fd)) {}
  // Unlocked by name: a forked child may still hold the descriptor open.
  ~PosixFileLock() override { ::flock(fd_.get(), LOCK_UN); }

 private:
  Fd fd_;
};

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Something has the name: fine if it is a folder.
Status CheckDirectory(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return CallError(errno, "stat", path);
  if (S_ISDIR(st.st_mode)) return OkStatus();
  return AlreadyExists("mkdir {}: a file has this name", path);
}

class PosixFilesystem final : public Filesystem {
 public:
  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    Fd fd(Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
    if (!fd.ok()) return CallError(errno, "open", path);
    struct stat st;
    if (::fstat(fd.get(), &st) != 0) return CallError(errno, "fstat", path);
    if (!S_ISREG(st.st_mode)) {
      return InvalidArgument("open {}: {}", path,
                             S_ISDIR(st.st_mode) ? "it is a folder" : "it is not a regular file");
    }
    return std::make_unique<PosixReadableFile>(std::move(fd), EntryOf(st), path);
  }

  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    Fd fd(Uninterrupted(
        [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode); }));
    if (!fd.ok()) return CallError(errno, "create", path);
    return std::make_unique<PosixWritableFile>(std::move(fd), path);
  }

  StatusOr<DirectoryEntry> Stat(const std::string& path) override {
    struct stat st;
    if (::stat(path.c_str(), &st) != 0) return CallError(errno, "stat", path);
    DirectoryEntry entry = EntryOf(st);
    entry.name = path.substr(path.rfind('/') + 1);
    return entry;
  }

  StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
    if (folder == nullptr) return CallError(errno, "opendir", path);
    std::vector<DirectoryEntry> entries;
    while (true) {
      errno = 0;
      const dirent* next = ::readdir(folder.get());
      if (next == nullptr && errno != 0) return CallError(errno, "readdir", path);
      if (next == nullptr) break;
      const std::string name = next->d_name;
      if (name == "." || name == "..") continue;
      struct stat st;
      if (::fstatat(::dirfd(folder.get()), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // removed since it was read
        return CallError(errno, "stat", path + "/" + name);
      }
      entries.push_back(EntryOf(st));
      entries.back().name = name;
    }
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }

  Status CreateDirectories(const std::string& path) override {
    const std::string parent = ParentOf(path);
    if (::mkdir(path.c_str(), kDirectoryMode) == 0)
      return SyncDirectoryWherePossible(*this, parent);
    if (errno == ENOTDIR) return AlreadyExists("mkdir {}: a part of it is a file", path);
    if (errno == EEXIST) return CheckDirectory(path);
    if (errno != ENOENT || parent == path || parent == ".") return CallError(errno, "mkdir", path);
    PULSE_RETURN_IF_ERROR(CreateDirectories(parent));
    if (::mkdir(path.c_str(), kDirectoryMode) == 0)
      return SyncDirectoryWherePossible(*this, parent);
    return errno == EEXIST ? CheckDirectory(path) : CallError(errno, "mkdir", path);
  }

  Status SyncDirectory(const std::string& path) override {
    const Fd fd(
        Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd.ok()) return CallError(errno, "open folder", path);
    if (Uninterrupted([&] { return ::fsync(fd.get()); }) == 0) return OkStatus();
    if (errno == EINVAL || errno == ENOTSUP) return Lacks(errno, "fsync of folders", path);
    return CallError(errno, "fsync folder", path);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return OkStatus();
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return FailedPrecondition("rename {} to {}: that folder is not empty", from, to);
    }
    return CallError(errno, "rename", from + " to " + to);
  }

  Status Link(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) == 0) return OkStatus();
    // EPERM is what vfat and many FUSE file systems say.
    if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) return Lacks(errno, "links", from);
    return CallError(errno, "link", from + " to " + to);
  }

  Status Symlink(const std::string& target, const std::string& path) override {
    if (::symlink(target.c_str(), path.c_str()) == 0) return OkStatus();
    if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS)
      return Lacks(errno, "symlinks", path);
    return CallError(errno, "symlink", path);
  }

  StatusOr<std::string> ReadSymlink(const std::string& path) override {
    std::string target(256, '\0');
    while (true) {
      const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
      if (size < 0) return CallError(errno, "readlink", path);
      if (static_cast<size_t>(size) < target.size()) {
        target.resize(static_cast<size_t>(size));
        return target;
      }
      target.resize(target.size() * 2);  // it may have been cut short
    }
  }

  Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) return OkStatus();
    // Linux says EISDIR for a folder, POSIX EPERM.
    if (errno != EISDIR && errno != EPERM) return CallError(errno, "unlink", path);
    const int unlink_error = errno;
    if (::rmdir(path.c_str()) == 0) return OkStatus();
    if (errno == ENOTDIR) return CallError(unlink_error, "unlink", path);
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return FailedPrecondition("rmdir {}: the folder is not empty", path);
    }
    return CallError(errno, "rmdir", path);
  }

  StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, Deadline deadline) override {
    // flock has no time limit, so we try again: at once at first, then every few milliseconds (a
    // holder's commit, with its fsyncs, takes about that long).
    std::chrono::microseconds pause(50);
    constexpr std::chrono::microseconds kLongestPause(4000);
    Fd fd;
    while (true) {
      if (!fd.ok()) {
        fd = Fd(Uninterrupted(
            [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode); }));
        if (!fd.ok()) return CallError(errno, "open lock", path);
      }
      if (Uninterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) == 0) {
        // A holder may have removed the file, and the lock of a file without a name protects
        // nothing.
        struct stat held, named;
        if (::fstat(fd.get(), &held) != 0) return CallError(errno, "fstat", path);
        if (::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
            held.st_dev == named.st_dev) {
          return std::make_unique<PosixFileLock>(std::move(fd));
        }
        fd = Fd();
        continue;
      }
      if (errno == ENOLCK || errno == ENOSYS || errno == ENOTSUP)
        return Lacks(errno, "locks", path);
      if (errno != EWOULDBLOCK) return CallError(errno, "flock", path);
      if (deadline.Expired()) {
        return DeadlineExceeded("lock {}: another process holds it; is one of them stopped?", path);
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongestPause);
    }
  }
};

}  // namespace

std::unique_ptr<Filesystem> MakePosixFilesystem() {
  return std::make_unique<PosixFilesystem>();
}

}  // namespace pulse
