#include "sync/view.h"

#include <algorithm>

namespace pulse {

std::vector<TensorRange> AllCells(const ModelSchema& schema) {
  std::vector<TensorRange> cells;
  for (size_t tensor = 0; tensor < schema.tensors().size(); ++tensor) {
    const uint64_t bytes = schema.tensors()[tensor].bytes();
    uint64_t begin = 0;
    do {
      const uint64_t end = std::min(bytes, begin + kCellBytes);
      cells.push_back({tensor, begin, end});
      begin = end;
    } while (begin < bytes);
  }
  return cells;
}

Status CheckRanges(const ModelSchema& schema, const std::vector<TensorRange>& ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    const TensorRange& range = ranges[i];
    if (range.tensor >= schema.tensors().size()) {
      return InvalidArgument("range {} names tensor {}, the schema has {}", i, range.tensor,
                             schema.tensors().size());
    }
    const TensorSpec& spec = schema.tensors()[range.tensor];
    const uint64_t bytes = spec.bytes();
    const bool inside = range.begin <= range.end && range.end <= bytes;
    const bool aligned = range.begin % kDigestChunkBytes == 0 &&
                         (range.end == bytes || range.end % kDigestChunkBytes == 0);
    const bool one_cell =
        range.begin / kCellBytes == (std::max(range.end, range.begin + 1) - 1) / kCellBytes;
    const bool empty = range.begin == range.end;  // only an empty tensor has an empty range
    if (!inside || !aligned || !one_cell || empty != (bytes == 0)) {
      return InvalidArgument(
          "range [{}, {}) of tensor \"{}\" ({} bytes): expected multiples of 1 MiB inside one cell "
          "of 16 MiB",
          range.begin, range.end, spec.name, bytes);
    }
    if (i > 0 && (ranges[i - 1].tensor > range.tensor ||
                  (ranges[i - 1].tensor == range.tensor &&
                   (ranges[i - 1].end > range.begin || bytes == 0)))) {
      return InvalidArgument("range {} of tensor \"{}\" is not behind the one before", i,
                             spec.name);
    }
  }
  return OkStatus();
}

StatusOr<ByteView> ModelViewSource::Read(const TensorRange& range, Bytes&) const {
  return view_.tensors[range.tensor].subspan(range.begin, range.bytes());
}

StatusOr<ViewDigests> ComputeDigests(const ViewSource& source) {
  const ModelSchema& schema = source.schema();
  ViewDigests digests;
  TensorDigester digester;
  Bytes scratch;
  for (const TensorRange& cell : AllCells(schema)) {
    PULSE_ASSIGN_OR_RETURN(const ByteView bytes, source.Read(cell, scratch));
    digester.Update(bytes);
    if (cell.end == schema.tensors()[cell.tensor].bytes()) {
      digests.tensors.push_back(digester.Finish());
      digester = TensorDigester();
    }
  }
  digests.view = ViewDigest(schema, digests.tensors);
  return digests;
}

}  // namespace pulse
