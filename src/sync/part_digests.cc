#include <algorithm>
#include <numeric>

#include "sync/patch_writer.h"

namespace pulse {
namespace {

// "PPD1": a layout of one release talking to itself, so a change of it only needs a new tag.
constexpr uint32_t kTag = 0x31445050;
constexpr size_t kFixedBytes = 4 + 4 + 8 + 8 + 8;
constexpr size_t kRangeBytes = 3 * 8;

uint64_t ChunksOf(const TensorRange& range) {
  return (range.bytes() + kDigestChunkBytes - 1) / kDigestChunkBytes;
}

void AppendDigests(const std::vector<Digest>& digests, Bytes& out) {
  for (const Digest& digest : digests)
    out.insert(out.end(), digest.bytes.begin(), digest.bytes.end());
}

std::vector<Digest> LoadDigests(const uint8_t* from, size_t count) {
  std::vector<Digest> digests(count);
  for (Digest& digest : digests) {
    std::copy_n(from, digest.bytes.size(), digest.bytes.begin());
    from += digest.bytes.size();
  }
  return digests;
}

// One range and where its chunks lie in its part.
struct Piece {
  TensorRange range;
  const PartDigests* part;
  size_t first_chunk;
};

ViewDigests Combine(const ModelSchema& schema, const std::vector<Piece>& pieces,
                    std::vector<Digest> PartDigests::*chunks) {
  ViewDigests digests;
  std::vector<Digest> tensor_chunks;
  for (size_t tensor = 0, next = 0; tensor < schema.tensors().size(); ++tensor) {
    tensor_chunks.clear();
    for (; next < pieces.size() && pieces[next].range.tensor == tensor; ++next) {
      const Piece& piece = pieces[next];
      const auto begin = (piece.part->*chunks).begin() + static_cast<ptrdiff_t>(piece.first_chunk);
      tensor_chunks.insert(tensor_chunks.end(), begin,
                           begin + static_cast<ptrdiff_t>(ChunksOf(piece.range)));
    }
    digests.tensors.push_back(CombineChunks(tensor_chunks));
  }
  digests.view = ViewDigest(schema, digests.tensors);
  return digests;
}

Status CheckPart(const ModelSchema& schema, const PartDigests& part) {
  PULSE_RETURN_IF_ERROR(CheckRanges(schema, part.ranges));
  uint64_t chunks = 0;
  for (const TensorRange& range : part.ranges) chunks += ChunksOf(range);
  if (part.target_chunks.size() != chunks ||
      part.base_chunks.size() != (part.has_base ? chunks : 0)) {
    return InvalidArgument("a part's digests do not go with its ranges");
  }
  return OkStatus();
}

}  // namespace

Bytes SerializePartDigests(const PartDigests& digests) {
  Bytes out;
  AppendLittle(kTag, out);
  AppendLittle(static_cast<uint32_t>(digests.has_base), out);
  AppendLittle(static_cast<uint64_t>(digests.ranges.size()), out);
  AppendLittle(digests.changed, out);
  AppendLittle(digests.blob_bytes, out);
  for (const TensorRange& range : digests.ranges) {
    AppendLittle(static_cast<uint64_t>(range.tensor), out);
    AppendLittle(range.begin, out);
    AppendLittle(range.end, out);
  }
  AppendDigests(digests.base_chunks, out);
  AppendDigests(digests.target_chunks, out);
  return out;
}

StatusOr<PartDigests> DeserializePartDigests(ByteView bytes) {
  const Status malformed = DataLoss("part digests: {} bytes that no rank sends", bytes.size());
  if (bytes.size() < kFixedBytes || LoadLittle<uint32_t>(bytes.data()) != kTag) return malformed;
  const auto has_base = LoadLittle<uint32_t>(bytes.data() + 4);
  const auto count = LoadLittle<uint64_t>(bytes.data() + 8);
  if (has_base > 1 || count > (bytes.size() - kFixedBytes) / kRangeBytes) return malformed;
  PartDigests digests;
  digests.has_base = has_base == 1;
  digests.changed = LoadLittle<uint64_t>(bytes.data() + 16);
  digests.blob_bytes = LoadLittle<uint64_t>(bytes.data() + 24);
  const uint8_t* at = bytes.data() + kFixedBytes;
  uint64_t chunks = 0;
  for (uint64_t i = 0; i < count; ++i, at += kRangeBytes) {
    const TensorRange range = {LoadLittle<uint64_t>(at), LoadLittle<uint64_t>(at + 8),
                               LoadLittle<uint64_t>(at + 16)};
    if (range.begin > range.end || range.bytes() > kCellBytes) return malformed;
    chunks += ChunksOf(range);
    digests.ranges.push_back(range);
  }
  const uint64_t digest_bytes = chunks * sizeof(Digest::bytes) * (1 + has_base);
  if (static_cast<uint64_t>(bytes.data() + bytes.size() - at) != digest_bytes) return malformed;
  if (digests.has_base) {
    digests.base_chunks = LoadDigests(at, chunks);
    at += chunks * sizeof(Digest::bytes);
  }
  digests.target_chunks = LoadDigests(at, chunks);
  return digests;
}

StatusOr<CombinedDigests> CombineParts(const ModelSchema& schema,
                                       const std::vector<PartDigests>& parts) {
  std::vector<Piece> pieces;
  CombinedDigests combined;
  for (const PartDigests& part : parts) {
    PULSE_RETURN_IF_ERROR(CheckPart(schema, part));
    if (part.has_base != parts.front().has_base) {
      return InvalidArgument("some publishing ranks have a base and others have none");
    }
    size_t first_chunk = 0;
    for (const TensorRange& range : part.ranges) {
      pieces.push_back({range, &part, first_chunk});
      first_chunk += ChunksOf(range);
    }
    combined.changed += part.changed;
    combined.blob_bytes += part.blob_bytes;
  }
  std::ranges::sort(pieces, {}, &Piece::range);
  std::vector<TensorRange> ranges;
  for (const Piece& piece : pieces) ranges.push_back(piece.range);
  std::vector<TensorRange> whole;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    whole.push_back({i, 0, schema.tensors()[i].bytes()});
  }
  if (!CheckRanges(schema, ranges).ok() || MergeAdjacent(ranges) != whole) {
    return InvalidArgument("the publishing ranks' ranges do not cover the model exactly once");
  }
  combined.target = Combine(schema, pieces, &PartDigests::target_chunks);
  if (!parts.empty() && parts.front().has_base) {
    combined.base = Combine(schema, pieces, &PartDigests::base_chunks);
  }
  return combined;
}

}  // namespace pulse
