// A bucket: named objects that outlive the process. Objects are immutable by convention, except for
// one head per run that is swapped by conditional puts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// What is to be put. Random access, so that a part can be sent again; bounded memory, whatever the
// size. Read() may be called from several threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Fills `out` from `offset`; offset + out.size() <= size().
  virtual Status Read(uint64_t offset, ByteSpan out) const = 0;
};

// Bytes in memory; they must outlive the source.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(ByteView bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, ByteSpan out) const override;

 private:
  ByteView bytes_;
};

// Bytes in memory that it owns.
class OwnedSource final : public ByteSource {
 public:
  explicit OwnedSource(Bytes bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, ByteSpan out) const override {
    return MemorySource(bytes_).Read(offset, out);
  }

 private:
  Bytes bytes_;
};

struct ObjectInfo {
  std::string key;
  uint64_t bytes = 0;
  int64_t modified_unix_ns = 0;
  // Opaque; equal etags of one key mean equal contents. Empty in the answers of List where the
  // store would have to read the object for it.
  std::string etag;
};

struct Object {
  ObjectInfo info;
  Bytes bytes;
};

struct PutCondition {
  enum class Kind { kNone, kIfAbsent, kIfMatch };
  Kind kind = Kind::kNone;
  std::string etag;  // for kIfMatch

  static PutCondition None() { return {}; }
  static PutCondition IfAbsent() { return {Kind::kIfAbsent, {}}; }
  static PutCondition IfMatch(std::string etag) { return {Kind::kIfMatch, std::move(etag)}; }
};

struct ListPage {
  std::vector<ObjectInfo> objects;    // ascending by key
  std::vector<std::string> prefixes;  // with delimiter "/": the "folders", each ending in "/"
  std::string next;                   // pass as `after` for the next page; empty at the end
};

// Keys are relative to the store's root: segments of [A-Za-z0-9._=-]+ joined by "/", no segment "."
// or
// ".." or starting with ".tmp", at most 512 bytes: else kInvalidArgument, before anything is
// touched. Thread-safe. A put is visible whole or not at all, and durable when it returns OK.
//
// Errors: kNotFound; kAborted when a condition does not hold; kUnavailable and kDeadlineExceeded
// when the outcome may be unknown (a put may have happened: read again); kPermissionDenied;
// kResourceExhausted (no space, or larger than a bound); kDataLoss when bytes are not what was
// stored; kUnimplemented for a condition that this store can't keep (see HonoursConditions).
class Store {
 public:
  virtual ~Store() = default;

  // The URI for messages, without credentials.
  virtual const std::string& uri() const = 0;

  // Whether puts honour kIfAbsent and kIfMatch (found out by a probe where the store can't
  // promise).
  virtual StatusOr<bool> HonoursConditions() = 0;

  virtual StatusOr<ObjectInfo> Stat(std::string_view key) = 0;

  // The whole object, its etag belonging to exactly these bytes; kResourceExhausted above
  // max_bytes.
  virtual StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) = 0;

  // Fills `out` from `offset`; kDataLoss if the object ends before.
  virtual Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) = 0;

  virtual StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                                   const PutCondition& condition) = 0;

  // Keys that start with `prefix` and are greater than `after`, at most `limit` (> 0) objects and
  // prefixes together, or fewer with `next` set. With `delimited`, keys that have a "/" behind the
  // prefix are rolled up. What is put or deleted meanwhile may be seen or not.
  virtual StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                                  bool delimited) = 0;

  // OK if there is no such object.
  virtual Status Delete(std::string_view key) = 0;
};

// The rule for keys above.
Status CheckKey(std::string_view key);

// All pages of List.
StatusOr<ListPage> ListAll(Store& store, std::string_view prefix, bool delimited);

}  // namespace pulse
