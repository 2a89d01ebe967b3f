#include "store/fault_injecting_filesystem.h"

#include <utility>

namespace pulse {
namespace {

class FaultyWritableFile final : public WritableFile {
 public:
  FaultyWritableFile(std::unique_ptr<WritableFile> base, std::string path, FaultInjector& injector)
      : base_(std::move(base)), path_(std::move(path)), injector_(injector) {}

  Status Append(ByteView bytes) override {
    return injector_.Run("file.Append", path_, [&] { return base_->Append(bytes); });
  }
  Status Sync() override {
    return injector_.Run("file.Sync", path_, [&] { return base_->Sync(); });
  }
  Status Close() override {
    return injector_.Run("file.Close", path_, [&] { return base_->Close(); });
  }

 private:
  std::unique_ptr<WritableFile> base_;
  std::string path_;
  FaultInjector& injector_;
};

class FaultyReadableFile final : public ReadableFile {
 public:
  FaultyReadableFile(std::unique_ptr<ReadableFile> base, std::string path, FaultInjector& injector)
      : base_(std::move(base)), path_(std::move(path)), injector_(injector) {}

  uint64_t size() const override { return base_->size(); }
  const DirectoryEntry& entry() const override { return base_->entry(); }
  Status ReadAt(uint64_t offset, ByteSpan out) const override {
    return injector_.Run("file.ReadAt", path_, [&] { return base_->ReadAt(offset, out); });
  }
  StatusOr<ByteView> Map() const override {
    return injector_.Run("file.Map", path_, [&] { return base_->Map(); });
  }

 private:
  std::unique_ptr<ReadableFile> base_;
  std::string path_;
  FaultInjector& injector_;
};

class FaultInjectingFilesystem final : public Filesystem {
 public:
  FaultInjectingFilesystem(Filesystem& base, FaultInjector& injector)
      : base_(base), injector_(injector) {}

  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    PULSE_ASSIGN_OR_RETURN(auto file,
                           injector_.Run("fs.Open", path, [&] { return base_.Open(path); }));
    return std::make_unique<FaultyReadableFile>(std::move(file), path, injector_);
  }
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    PULSE_ASSIGN_OR_RETURN(auto file,
                           injector_.Run("fs.Create", path, [&] { return base_.Create(path); }));
    return std::make_unique<FaultyWritableFile>(std::move(file), path, injector_);
  }
  StatusOr<DirectoryEntry> Stat(const std::string& path) override {
    return injector_.Run("fs.Stat", path, [&] { return base_.Stat(path); });
  }
  StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override {
    return injector_.Run("fs.List", path, [&] { return base_.List(path); });
  }
  Status CreateDirectories(const std::string& path) override {
    return injector_.Run("fs.CreateDirectories", path,
                         [&] { return base_.CreateDirectories(path); });
  }
  Status SyncDirectory(const std::string& path) override {
    return injector_.Run("fs.SyncDirectory", path, [&] { return base_.SyncDirectory(path); });
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return injector_.Run("fs.Rename", from + " to " + to, [&] { return base_.Rename(from, to); });
  }
  Status Link(const std::string& from, const std::string& to) override {
    return injector_.Run("fs.Link", from + " to " + to, [&] { return base_.Link(from, to); });
  }
  Status Symlink(const std::string& target, const std::string& path) override {
    return injector_.Run("fs.Symlink", path, [&] { return base_.Symlink(target, path); });
  }
  StatusOr<std::string> ReadSymlink(const std::string& path) override {
    return injector_.Run("fs.ReadSymlink", path, [&] { return base_.ReadSymlink(path); });
  }
  Status Remove(const std::string& path) override {
    return injector_.Run("fs.Remove", path, [&] { return base_.Remove(path); });
  }
  StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, Deadline deadline) override {
    return injector_.Run("fs.Lock", path, [&] { return base_.Lock(path, deadline); });
  }

 private:
  Filesystem& base_;
  FaultInjector& injector_;
};

}  // namespace

std::unique_ptr<Filesystem> MakeFaultInjectingFilesystem(Filesystem& base,
                                                         FaultInjector& injector) {
  return std::make_unique<FaultInjectingFilesystem>(base, injector);
}

}  // namespace pulse
