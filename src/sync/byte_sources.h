// Random access to stored bytes: files, objects of a bucket, and a spool that moves from memory to
// disk.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/filesystem.h"
#include "store/store.h"

namespace pulse {

// A file, mapped: bytes() is all of it.
class MappedSource final : public ByteSource {
 public:
  static StatusOr<std::shared_ptr<const MappedSource>> Open(Filesystem& fs,
                                                            const std::string& path);
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, ByteSpan out) const override;
  ByteView bytes() const { return bytes_; }

 private:
  std::unique_ptr<ReadableFile> file_;
  ByteView bytes_;
};

// An object, read piece by piece from its store. Bytes are as the store gives them: unverified.
class ObjectSource final : public ByteSource {
 public:
  ObjectSource(Store& store, std::string key, uint64_t bytes)
      : store_(store), key_(std::move(key)), bytes_(bytes) {}
  uint64_t size() const override { return bytes_; }
  Status Read(uint64_t offset, ByteSpan out) const override;

 private:
  Store& store_;
  std::string key_;
  uint64_t bytes_;
};

// Bytes appended once and then read: in memory up to a bound, beyond it in a temporary file that is
// removed with the spool. Append from one thread; reading is thread-safe once appending is over.
class Spool final : public ByteSource {
 public:
  // path: of the temporary file, made only when needed; empty: kResourceExhausted beyond the bound.
  Spool(Filesystem* fs, std::string path, uint64_t memory_bytes)
      : fs_(fs), path_(std::move(path)), memory_bytes_(memory_bytes) {}
  ~Spool() override;

  Status Append(ByteView bytes);
  Status Finish();  // before the first Read
  uint64_t size() const override { return size_; }
  Status Read(uint64_t offset, ByteSpan out) const override;

 private:
  Status MoveToFile();

  Filesystem* fs_;
  std::string path_;
  uint64_t memory_bytes_;
  uint64_t size_ = 0;
  Bytes memory_;
  std::unique_ptr<WritableFile> writing_;
  std::unique_ptr<ReadableFile> reading_;
};

// Gives a whole source to `sink`, front to back, in pieces of at most 1 MiB; stops at the first
// error.
Status ForEachPiece(const ByteSource& source, const std::function<Status(ByteView)>& sink);

// Writes a whole source to a new file at `path`: replaced atomically, durable.
Status CopyToFile(Filesystem& fs, const ByteSource& source, const std::string& path);

// SHA-256 of a whole source, read in pieces.
StatusOr<std::string> Sha256Of(const ByteSource& source);

}  // namespace pulse
