// The native payload file, for reading: a delta (the changed ranges of a view) or an anchor (all
// bytes). Both are valid safetensors files; an anchor of a whole model is a plain checkpoint that
// any tool loads. docs/format.md has the layout.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/safetensors.h"
#include "kernels/kernels.h"
#include "store/store.h"
#include "sync/manifest.h"
#include "sync/view.h"

namespace pulse {

// The metadata key that every payload file has, and no other file.
inline constexpr char kPayloadFormatKey[] = "pulse.format";

// How a range's blob gives its bytes. A new codec takes a new name; names are never reused.
enum class RangeCodec {
  kSame,   // as in the base; no blob
  kRaw,    // the bytes themselves
  kFast,   // codec/word_delta.h
  kSmall,  // codec/small_delta.h
};

std::string_view NameOf(RangeCodec codec);  // "same", "raw", "fast", "small"

// What a payload file says about itself.
struct PayloadInfo {
  PayloadRole role = PayloadRole::kDelta;
  std::string run;  // with base and target ("<epoch>.<number>") empty in a free-standing patch
  std::string base;
  std::string target;
  Digest base_digest;                  // of the base's view; none for an anchor
  Digest target_digest;                // of the whole new view
  std::vector<Digest> tensor_digests;  // of the new view, in schema order; empty for an anchor
  std::map<std::string, std::string> extra;  // metadata that is not ours
};

struct PayloadRange {
  TensorRange range;  // inside a cell for a delta; any chunk-aligned range for an anchor
  RangeCodec codec = RangeCodec::kSame;
  uint64_t changed = 0;     // elements that differ; 0 for an anchor
  uint64_t blob_begin = 0;  // in the file's data
  uint64_t blob_end = 0;
};

// One payload file, opened. Immutable, thread-safe.
class PayloadFile {
 public:
  // Checks everything the header says, also against itself. kDataLoss, kUnimplemented (a newer
  // format or codec), or the source's own errors.
  static StatusOr<std::shared_ptr<const PayloadFile>> Open(
      std::shared_ptr<const ByteSource> source);

  const PayloadInfo& info() const { return info_; }
  const ModelSchema& schema() const { return schema_; }
  const std::vector<PayloadRange>& ranges() const { return ranges_; }  // ascending
  uint64_t file_bytes() const { return source_->size(); }
  uint64_t changed() const;  // elements, over all ranges

  // Turns the base's bytes of ranges()[i] into the new ones, in place. kDataLoss.
  Status Apply(const kernels::KernelTable& kernels, size_t i, ByteSpan bytes) const;
  // For a kRaw range: part of it, `offset` bytes behind its start.
  Status ReadRaw(size_t i, uint64_t offset, ByteSpan out) const;
  // The same without a copy, where the file is mapped; empty where it is not.
  ByteView MappedRaw(size_t i, uint64_t offset, uint64_t bytes) const;

 private:
  PayloadFile() = default;

  std::shared_ptr<const ByteSource> source_;
  ByteView mapped_;  // the whole file, when the source is a MappedSource
  uint64_t data_offset_ = 0;
  PayloadInfo info_;
  ModelSchema schema_;
  std::vector<PayloadRange> ranges_;
};

// The view that a payload makes, lazily: an anchor alone, or a delta over its base. Stacking views
// gives a chain; reading a cell of the topmost reads each layer's cell once. Thread-safe.
class PayloadView final : public ViewSource {
 public:
  // files: all parts of one version's payload of one role. base: null for an anchor. The base and
  // the kernels must outlive the view. kDataLoss unless the parts agree with each other and cover
  // `owned` (empty: the whole schema) exactly once; kFailedPrecondition when the base's schema
  // differs.
  static StatusOr<std::unique_ptr<PayloadView>> Make(
      const kernels::KernelTable& kernels, std::vector<std::shared_ptr<const PayloadFile>> files,
      const ViewSource* base, const std::vector<TensorRange>& owned = {});

  const ModelSchema& schema() const override { return files_.front()->schema(); }
  const PayloadInfo& info() const { return files_.front()->info(); }
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override;

  // OK if the rebuilt digests are what the payload promises; else kDataLoss naming the first tensor
  // that differs, where the payload knows.
  Status CheckDigests(const ViewDigests& rebuilt) const;

 private:
  struct Part {
    TensorRange range;
    const PayloadFile* file;
    size_t index;
  };
  PayloadView(const kernels::KernelTable& kernels, const ViewSource* base)
      : kernels_(kernels), base_(base) {}
  std::span<const Part> PartsOf(const TensorRange& range) const;  // those that it meets
  StatusOr<ByteView> ReadAnchor(const TensorRange& range, Bytes& scratch) const;
  StatusOr<ByteView> ReadDelta(const TensorRange& range, Bytes& scratch) const;

  const kernels::KernelTable& kernels_;
  const ViewSource* base_;
  std::vector<std::shared_ptr<const PayloadFile>> files_;
  std::vector<Part> parts_;  // ascending by range
};

}  // namespace pulse
