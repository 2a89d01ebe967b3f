#include "sync/view.h"

#include <algorithm>

#include "core/shards.h"

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

Status CheckRuns(const ModelSchema& schema, const std::vector<TensorRange>& runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const TensorRange& run = runs[i];
    if (run.tensor >= schema.tensors().size()) {
      return InvalidArgument("range {} names tensor {}, the schema has {}", i, run.tensor,
                             schema.tensors().size());
    }
    const TensorSpec& spec = schema.tensors()[run.tensor];
    const uint64_t bytes = spec.bytes();
    const bool inside = run.begin <= run.end && run.end <= bytes;
    const bool aligned = run.begin % kDigestChunkBytes == 0 &&
                         (run.end == bytes || run.end % kDigestChunkBytes == 0);
    // Only an empty tensor has an empty range.
    if (!inside || !aligned || (run.begin == run.end) != (bytes == 0)) {
      return InvalidArgument(
          "range [{}, {}) of tensor \"{}\" ({} bytes): expected multiples of {} inside it",
          run.begin, run.end, spec.name, bytes, kDigestChunkBytes);
    }
    if (i == 0) continue;
    const TensorRange& last = runs[i - 1];
    if (last.tensor > run.tensor ||
        (last.tensor == run.tensor && (last.end > run.begin || bytes == 0))) {
      return InvalidArgument("range {} of tensor \"{}\" is not behind the one before", i,
                             spec.name);
    }
  }
  return OkStatus();
}

Status CheckRanges(const ModelSchema& schema, const std::vector<TensorRange>& ranges) {
  PULSE_RETURN_IF_ERROR(CheckRuns(schema, ranges));
  for (const TensorRange& range : ranges) {
    if (range.bytes() > 0 && range.begin / kCellBytes != (range.end - 1) / kCellBytes) {
      return InvalidArgument("range [{}, {}) of tensor \"{}\" crosses a multiple of {}",
                             range.begin, range.end, schema.tensors()[range.tensor].name,
                             kCellBytes);
    }
  }
  return OkStatus();
}

std::vector<std::vector<TensorRange>> ShareRanges(const ModelSchema& schema, size_t ranks) {
  const auto shards = CutIntoShards(schema, static_cast<uint32_t>(ranks));
  std::vector<std::vector<TensorRange>> shares(1);
  for (const TensorRange& cell : AllCells(schema)) {
    const uint64_t width = SizeOf(schema.tensors()[cell.tensor].dtype);
    // Where the shard that is being filled ends, in this tensor's bytes, if that is in it at all.
    const auto border = [&] {
      const uint64_t end = shards[shares.size() - 1].end, tensor = schema.offset(cell.tensor);
      return end <= tensor ? 0 : (end - tensor) * width;
    };
    for (uint64_t begin = cell.begin; begin < cell.end;) {
      if (border() <= begin) shares.emplace_back();
      const uint64_t end = std::min(cell.end, border());
      shares.back().push_back({cell.tensor, begin, end});
      begin = end;
    }
    if (cell.bytes() == 0) shares.back().push_back(cell);
  }
  return shares;
}

std::vector<TensorRange> MergeAdjacent(const std::vector<TensorRange>& ascending) {
  std::vector<TensorRange> runs;
  for (const TensorRange& range : ascending) {
    const bool touches = !runs.empty() && runs.back().tensor == range.tensor &&
                         runs.back().end == range.begin && range.bytes() > 0;
    if (touches) {
      runs.back().end = range.end;
    } else {
      runs.push_back(range);
    }
  }
  return runs;
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
