// The native payload file, for writing: encode a delta range by range, agree on digests between
// publishing ranks, then lay the file out.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "sync/byte_sources.h"
#include "sync/patch.h"
#include "sync/view.h"

namespace pulse {

// What one publishing rank learnt about its ranges: what the others need, and no more. 16 bytes per
// MiB.
struct PartDigests {
  std::vector<TensorRange> ranges;
  bool has_base = false;
  std::vector<Digest> base_chunks;  // of all ranges in turn; empty without a base
  std::vector<Digest> target_chunks;
  uint64_t changed = 0;     // elements
  uint64_t blob_bytes = 0;  // of the encoded delta
};

// For the exchange between ranks. Deserialize: kDataLoss for any bytes Serialize does not write.
Bytes SerializePartDigests(const PartDigests& digests);
StatusOr<PartDigests> DeserializePartDigests(ByteView bytes);

// The digests of the whole views, from all parts. kInvalidArgument unless the parts' ranges cover
// the schema exactly once. base stays empty when the parts have none.
struct CombinedDigests {
  ViewDigests base;
  ViewDigests target;
  uint64_t changed = 0;
  uint64_t blob_bytes = 0;
};
StatusOr<CombinedDigests> CombineParts(const ModelSchema& schema,
                                       const std::vector<PartDigests>& parts);

struct EncodeOptions {
  RangeCodec codec = RangeCodec::kFast;  // or kSmall; ranges that it can't shrink travel raw
  int threads = 1;                       // each needs about three cells of scratch
  std::function<void(uint64_t)> progress =
      {};  // bytes scanned so far; called by one thread at a time
};

// The ranges of a delta and their blobs, not yet a file.
struct EncodedDelta {
  std::vector<PayloadRange> ranges;  // blob offsets are the spool's
  std::shared_ptr<const Spool> blobs;
  PartDigests digests;
};

// Compares two views of one schema over `ranges` (as CheckRanges wants them) and digests both on
// the way. Deterministic, whatever the number of threads.
StatusOr<EncodedDelta> EncodeDelta(const kernels::KernelTable& kernels, const ViewSource& before,
                                   const ViewSource& after, const std::vector<TensorRange>& ranges,
                                   std::unique_ptr<Spool> spool, const EncodeOptions& options);

// The digests alone, for a version without a delta.
StatusOr<PartDigests> DigestRanges(const ViewSource& view, const std::vector<TensorRange>& ranges,
                                   const EncodeOptions& options);

// The finished files, to be put or copied. info.role is set by the call; extra metadata may not
// begin with "pulse.". The view, its schema and the delta must outlive the source.
StatusOr<std::unique_ptr<ByteSource>> MakeDeltaFile(const ModelSchema& schema,
                                                    const EncodedDelta& delta, PayloadInfo info);
StatusOr<std::unique_ptr<ByteSource>> MakeAnchorFile(const ViewSource& view,
                                                     const std::vector<TensorRange>& ranges,
                                                     PayloadInfo info);

}  // namespace pulse
