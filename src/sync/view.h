// Where the bytes of a view come from: mapped files, FP32 masters, a base and the deltas behind it.
// All of them are read in cells, so that memory stays bounded whatever a tensor's size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "codec/container.h"
#include "codec/word_delta.h"
#include "core/bytes.h"
#include "core/digest.h"
#include "core/schema.h"
#include "core/status.h"
#include "core/view.h"

namespace pulse {

// A tensor's bytes are cut at multiples of this, in the tensor's own coordinates. It is part of the
// patch format: no range of a delta crosses a cut, so a chain of deltas is applied cell by cell,
// each cell in memory once. A multiple of the digest's chunk; 16 MiB keeps a worker's scratch under
// 64 MiB while the rows that describe a range stay below a millionth of what they describe.
inline constexpr uint64_t kCellBytes = uint64_t{16} << 20;
static_assert(kCellBytes % kDigestChunkBytes == 0);

// Bytes [begin, end) of a tensor (its index in the schema).
struct TensorRange {
  size_t tensor = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
  friend auto operator<=>(const TensorRange&, const TensorRange&) = default;
};

// Every cell of every tensor, in schema order; an empty tensor has one empty cell.
std::vector<TensorRange> AllCells(const ModelSchema& schema);

// kInvalidArgument unless the ranges are ascending, disjoint, inside their tensors, start at
// multiples of kDigestChunkBytes, end at one or at the tensor's end, and cross no cut. What a
// publishing rank may own.
Status CheckRanges(const ModelSchema& schema, const std::vector<TensorRange>& ranges);

// The same without the rule about cells: for full copies, which are read in pieces anyway.
Status CheckRuns(const ModelSchema& schema, const std::vector<TensorRange>& runs);

// Cuts a model over publishing ranks as CutIntoShards does, in ranges that CheckRanges allows: at
// most `ranks` shares, none of them empty, a small model has fewer. Even in elements, not in bytes,
// so that a trainer's ranks publish what they hold.
std::vector<std::vector<TensorRange>> ShareRanges(const ModelSchema& schema, size_t ranks);

// Joins ranges that touch: the runs that `ascending` (ordered, disjoint) covers.
std::vector<TensorRange> MergeAdjacent(const std::vector<TensorRange>& ascending);

// A range that is read begins at a multiple of this and ends at one or at the end of its tensor, so
// that no element is cut. The largest element.
inline constexpr uint64_t kViewAlignment = 8;

// Thread-safe to read. The bytes do not change while the source lives.
class ViewSource {
 public:
  virtual ~ViewSource() = default;
  virtual const ModelSchema& schema() const = 0;
  // The bytes of a range inside one cell: straight from where they lie, else made in `scratch`
  // (which then owns them until its next use). Errors are those of the source: kDataLoss,
  // kUnavailable, ...
  virtual StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const = 0;
  // The change of a range since the last version in that codec, where the source has it encoded
  // already, as from a device. A proposal: who uses it checks that it leads from his base to what
  // Read gives.
  virtual std::optional<WordDelta> DeltaOf(const TensorRange& /*range*/, CodecId /*codec*/) const {
    return std::nullopt;
  }
};

// Bytes that lie in memory or in mapped files. view.schema must outlive the source.
class ModelViewSource final : public ViewSource {
 public:
  explicit ModelViewSource(ModelView view) : view_(std::move(view)) {}
  const ModelSchema& schema() const override { return *view_.schema; }
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override;

 private:
  ModelView view_;
};

// The digests of a view: per tensor, and of the whole.
struct ViewDigests {
  std::vector<Digest> tensors;
  Digest view;
};

// Reads everything once, one cell at a time.
StatusOr<ViewDigests> ComputeDigests(const ViewSource& source);

}  // namespace pulse
