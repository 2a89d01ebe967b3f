// The formats in which other systems exchange weights, behind one interface: what lies in a bucket
// or folder under a prefix, read version by version, and written version by version.
//
// A new format is a file with a ForeignFormat, a row in formats.cc and a row in docs/format.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.h"
#include "core/schema.h"
#include "core/status.h"
#include "store/store.h"
#include "sync/byte_sources.h"
#include "sync/view.h"

namespace pulse {

// --- reading

// The change of one tensor, applied front to back. For one thread.
class TensorPatch {
 public:
  virtual ~TensorPatch() = default;
  // Turns the next bytes of the tensor from the base's into the version's, in place. All pieces but
  // a tensor's last are multiples of kViewAlignment. kDataLoss.
  virtual Status Apply(ByteSpan bytes) = 0;
  // All bytes were given: kDataLoss if the change is not used up, or the tensor's checksum differs.
  virtual Status Finish() = 0;
};

// One version, opened. Immutable, thread-safe.
class ForeignVersion {
 public:
  virtual ~ForeignVersion() = default;

  virtual uint64_t number() const = 0;
  virtual bool full() const = 0;  // stands alone; else changes version number() - 1
  virtual uint64_t file_bytes() const = 0;
  // View digests of its base and of itself, where the writer was one of ours.
  virtual std::optional<Digest> base_digest() const = 0;
  virtual std::optional<Digest> target_digest() const = 0;

  // What the version's model consists of. base: of the version before, or for a full version of the
  // receiver's own model; null without one. kFailedPrecondition when the change does not fit it,
  // or when a base is needed.
  virtual StatusOr<ModelSchema> Schema(const ModelSchema* base) const = 0;
  // The change of a tensor of Schema(); null where the tensor is the base's, bit for bit. A full
  // version's change takes nothing from the bytes that it is applied to.
  virtual StatusOr<std::unique_ptr<TensorPatch>> Patch(const TensorSpec& spec) const = 0;
};

// A version that is there, not opened.
struct ForeignMark {
  uint64_t number = 0;
  std::optional<bool> full;  // none: only IsFull tells
  std::string key;           // of its file or folder (ending in "/"), in the store
  friend bool operator==(const ForeignMark&, const ForeignMark&) = default;
};

struct ForeignReadOptions {
  // What a decoder of foreign bytes may keep in memory.
  uint64_t decoder_bytes = uint64_t{64} << 20;
};

// --- writing

// Spools that a format needs for one version, at most.
inline constexpr uint64_t kMaxForeignSpools = 3;

struct ForeignEncodeOptions {
  // Where encoded bytes are kept until they are written: a new spool per call.
  std::function<std::unique_ptr<Spool>()> make_spool;
  std::function<void(uint64_t)> progress = {};  // bytes of the view scanned so far
};

// What a version is called, known only when it is to be written.
struct ForeignLabels {
  uint64_t number = 0;
  std::optional<Digest> base_digest = {};  // of version number - 1; for a delta
  std::optional<Digest> target_digest = {};
};

struct ForeignObject {
  std::string key;  // relative to the prefix
  std::unique_ptr<ByteSource> source;
};

// A version's bytes, not named yet. What it was made from must outlive it.
class EncodedForeignVersion {
 public:
  virtual ~EncodedForeignVersion() = default;
  // In the order in which they must be written: readers take the version when the last one is
  // there. The sources live as long as this.
  virtual StatusOr<std::vector<ForeignObject>> Objects(const ForeignLabels& labels) const = 0;
};

class ForeignFormat {
 public:
  virtual ~ForeignFormat() = default;

  virtual std::string_view name() const = 0;
  // How changes may be written, the default first; empty where there is one way only. All are read.
  virtual std::vector<std::string_view> encodings() const = 0;

  // The number of the first version. 0: version 0 is the receiver's own model, and never written.
  virtual uint64_t first_number() const = 0;
  // Whether a version may be there both as a delta and full.
  virtual bool full_beside_delta() const = 0;

  // The versions above `after`, ascending, a full one behind a delta of the same number; one that
  // is still being written is not among them. prefix: empty or ending in "/".
  virtual StatusOr<std::vector<ForeignMark>> List(Store& store, const std::string& prefix,
                                                  uint64_t after) const = 0;
  virtual StatusOr<bool> IsFull(Store& store, const ForeignMark& mark) const = 0;
  // kNotFound: it is gone. kDataLoss; kUnimplemented for what the format allows and we can't read.
  virtual StatusOr<std::unique_ptr<const ForeignVersion>> Open(
      Store& store, const ForeignMark& mark, const ForeignReadOptions& options) const = 0;

  // kUnimplemented, saying why, if a change of this tensor can't be written.
  virtual Status CanCarryChange(const TensorSpec& spec, std::string_view encoding) const = 0;

  // The change from `before` to `after`, views of one schema; before null: a full version.
  // encoding: one of encodings(), or empty for the default. kUnimplemented names the first tensor
  // that has changed and can't be carried. The views must outlive the result.
  virtual StatusOr<std::unique_ptr<EncodedForeignVersion>> Encode(
      const ViewSource* before, const ViewSource& after, std::string_view encoding,
      const ForeignEncodeOptions& options) const = 0;
};

}  // namespace pulse
