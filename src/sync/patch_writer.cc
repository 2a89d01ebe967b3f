#include "sync/patch_writer.h"

#include <algorithm>

#include "sync/in_order.h"
#include "sync/payload_file_source.h"
#include "sync/payload_metadata.h"
#include "sync/range_codec.h"

namespace pulse {
namespace {

void AppendChunkDigests(ByteView bytes, std::vector<Digest>& out) {
  for (size_t at = 0; at < bytes.size(); at += kDigestChunkBytes) {
    out.push_back(DigestOf(bytes.subspan(at, std::min(kDigestChunkBytes, bytes.size() - at))));
  }
}

struct EncodedRange {
  RangeCodec codec = RangeCodec::kSame;
  uint64_t changed = 0;
  Bytes blob;
  std::vector<Digest> base_chunks;
  std::vector<Digest> target_chunks;
};

// One thread's share of an encoding: scratch that lives from range to range.
class RangeEncoder {
 public:
  RangeEncoder(const kernels::KernelTable& kernels, const ViewSource& before,
               const ViewSource& after, RangeCodec codec)
      : kernels_(kernels), before_(before), after_(after), codec_(codec) {}

  StatusOr<EncodedRange> Encode(const TensorRange& range) {
    PULSE_ASSIGN_OR_RETURN(const ByteView before, before_.Read(range, before_scratch_));
    PULSE_ASSIGN_OR_RETURN(const ByteView after, after_.Read(range, after_scratch_));
    const DType dtype = after_.schema().tensors()[range.tensor].dtype;
    EncodedRange encoded;
    AppendChunkDigests(before, encoded.base_chunks);
    PULSE_ASSIGN_OR_RETURN(WordDelta delta, DeltaOf(range, before, after, dtype));
    encoded.changed = delta.changed;
    if (delta.changed == 0) {
      encoded.target_chunks = encoded.base_chunks;
      return encoded;
    }
    AppendChunkDigests(after, encoded.target_chunks);
    const bool shrinks = delta.bytes.size() < after.size();
    encoded.codec = shrinks ? codec_ : RangeCodec::kRaw;
    encoded.blob = shrinks ? std::move(delta.bytes) : Bytes(after.begin(), after.end());
    return encoded;
  }

 private:
  // What the source proposes is taken if it leads from `before` to `after`.
  StatusOr<WordDelta> DeltaOf(const TensorRange& range, ByteView before, ByteView after,
                              DType dtype) {
    const CodecId id =
        codec_ == RangeCodec::kSmall ? CodecId::kWordDeltaSmall : CodecId::kWordDeltaFast;
    if (auto proposed = after_.DeltaOf(range, id)) {
      proposed_scratch_.assign(before.begin(), before.end());
      const bool leads =
          ApplyRange(kernels_, codec_, proposed->bytes, dtype, proposed_scratch_).ok() &&
          std::ranges::equal(proposed_scratch_, after);
      if (leads) return *std::move(proposed);
    }
    return EncodeRange(kernels_, codec_, before, after, dtype);
  }

  const kernels::KernelTable& kernels_;
  const ViewSource& before_;
  const ViewSource& after_;
  const RangeCodec codec_;
  Bytes before_scratch_;
  Bytes after_scratch_;
  Bytes proposed_scratch_;
};

void Append(const std::vector<Digest>& from, std::vector<Digest>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

StatusOr<EncodedDelta> EncodeDelta(const kernels::KernelTable& kernels, const ViewSource& before,
                                   const ViewSource& after, const std::vector<TensorRange>& ranges,
                                   std::unique_ptr<Spool> spool, const EncodeOptions& options) {
  PULSE_RETURN_IF_ERROR(
      RequireSameSchema(before.schema(), "the base", after.schema(), "the new view"));
  PULSE_RETURN_IF_ERROR(CheckRanges(after.schema(), ranges));
  EncodedDelta delta;
  delta.digests.ranges = ranges;
  uint64_t scanned = 0;
  const auto make_worker = [&] {
    return [&, encoder = std::make_shared<RangeEncoder>(kernels, before, after, options.codec)](
               size_t i) { return encoder->Encode(ranges[i]); };
  };
  const auto consume = [&](size_t i, EncodedRange encoded) -> Status {
    const uint64_t begin = spool->size();
    PULSE_RETURN_IF_ERROR(spool->Append(encoded.blob));
    delta.ranges.push_back({ranges[i], encoded.codec, encoded.changed, begin, spool->size()});
    delta.digests.changed += encoded.changed;
    Append(encoded.base_chunks, delta.digests.base_chunks);
    Append(encoded.target_chunks, delta.digests.target_chunks);
    scanned += ranges[i].bytes();
    if (options.progress) options.progress(scanned);
    return OkStatus();
  };
  PULSE_RETURN_IF_ERROR(
      ProduceInOrder<EncodedRange>(ranges.size(), options.threads, make_worker, consume));
  PULSE_RETURN_IF_ERROR(spool->Finish());
  delta.digests.has_base = true;
  delta.digests.blob_bytes = spool->size();
  delta.blobs = std::move(spool);
  return delta;
}

StatusOr<PartDigests> DigestRanges(const ViewSource& view, const std::vector<TensorRange>& ranges,
                                   const EncodeOptions& options) {
  PULSE_RETURN_IF_ERROR(CheckRanges(view.schema(), ranges));
  PartDigests digests;
  digests.ranges = ranges;
  uint64_t scanned = 0;
  using Chunks = std::vector<Digest>;
  const auto make_worker = [&] {
    return [&, scratch = std::make_shared<Bytes>()](size_t i) -> StatusOr<Chunks> {
      PULSE_ASSIGN_OR_RETURN(const ByteView bytes, view.Read(ranges[i], *scratch));
      Chunks chunks;
      AppendChunkDigests(bytes, chunks);
      return chunks;
    };
  };
  const auto consume = [&](size_t i, Chunks chunks) -> Status {
    Append(chunks, digests.target_chunks);
    scanned += ranges[i].bytes();
    if (options.progress) options.progress(scanned);
    return OkStatus();
  };
  PULSE_RETURN_IF_ERROR(
      ProduceInOrder<Chunks>(ranges.size(), options.threads, make_worker, consume));
  return digests;
}

StatusOr<std::unique_ptr<ByteSource>> MakeDeltaFile(const ModelSchema& schema,
                                                    const EncodedDelta& delta, PayloadInfo info) {
  info.role = PayloadRole::kDelta;
  PULSE_ASSIGN_OR_RETURN(const auto metadata, WritePayloadMetadata(schema, info, delta.ranges));
  std::vector<TensorSpec> blobs;
  for (const PayloadRange& range : delta.ranges) {
    if (range.codec == RangeCodec::kSame) continue;
    blobs.push_back(
        {BlobName(schema, range.range), DType::kU8, {range.blob_end - range.blob_begin}});
  }
  PULSE_ASSIGN_OR_RETURN(Bytes header, WriteSafetensorsHeader(blobs, metadata));
  return std::unique_ptr<ByteSource>(
      std::make_unique<HeadedSource>(std::move(header), delta.blobs));
}

StatusOr<std::unique_ptr<ByteSource>> MakeAnchorFile(const ViewSource& view,
                                                     const std::vector<TensorRange>& ranges,
                                                     PayloadInfo info) {
  const ModelSchema& schema = view.schema();
  PULSE_RETURN_IF_ERROR(CheckRanges(schema, ranges));
  info.role = PayloadRole::kAnchor;
  const std::vector<TensorRange> runs = MergeAdjacent(ranges);
  std::vector<PayloadRange> rows;
  std::vector<TensorSpec> specs;
  for (const TensorRange& run : runs) {
    rows.push_back({run, RangeCodec::kRaw, 0, 0, 0});
    specs.push_back(IsWholeTensor(schema, run)
                        ? schema.tensors()[run.tensor]
                        : TensorSpec{BlobName(schema, run), DType::kU8, {run.bytes()}});
  }
  PULSE_ASSIGN_OR_RETURN(const auto metadata, WritePayloadMetadata(schema, info, rows));
  std::vector<TensorSpec> in_order;
  std::vector<TensorRange> runs_in_order;
  for (const size_t i : SafetensorsOrder(specs)) {
    in_order.push_back(specs[i]);
    runs_in_order.push_back(runs[i]);
  }
  PULSE_ASSIGN_OR_RETURN(Bytes header, WriteSafetensorsHeader(in_order, metadata));
  return std::unique_ptr<ByteSource>(std::make_unique<HeadedSource>(
      std::move(header), std::make_shared<RunsSource>(view, std::move(runs_in_order))));
}

}  // namespace pulse
