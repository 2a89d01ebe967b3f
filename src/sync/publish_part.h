// One publishing rank's share of a version: its ranges, encoded and uploaded as its own objects, so
// that a sharded trainer gathers nothing.
//
//   every rank   Encode -> all-gather of digests -> CombineParts -> Upload -> Stage
//   first rank   Publisher::Begin before, Publisher::Commit after all are staged
//   every rank   Promote
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "store/store.h"
#include "sync/patch_writer.h"
#include "sync/publisher.h"
#include "sync/staged_base.h"

namespace pulse {

struct PartOptions {
  std::string run = "main";
  uint32_t part = 0;                // this rank's number among the publishing ranks
  std::vector<TensorRange> ranges;  // what it owns; see CheckRanges
  int threads = 1;
  std::string spool_path = "";  // for blobs beyond memory_bytes; empty: none
  uint64_t memory_bytes = uint64_t{256} << 20;
  bool read_back = true;
};

// Puts `source` at the attempt's place and checks what the store then holds. The result's sha256
// and bytes are those of the source.
StatusOr<ManifestObject> PutAndVerify(Store& store, const std::string& run, const VersionId& id,
                                      PayloadRole role, uint32_t part, const ByteSource& source,
                                      bool read_back);

// What a rank encoded for one attempt.
struct EncodedPart {
  std::optional<EncodedDelta> delta;  // none without a base
  PartDigests digests;
};

// before: null without a base.
StatusOr<EncodedPart> EncodePart(Filesystem& fs, const kernels::KernelTable& kernels,
                                 const PartOptions& options, const ViewSource* before,
                                 const ViewSource& after,
                                 const std::function<void(uint64_t)>& progress);

// Uploads the delta (if there is one) and, with `anchor`, the full bytes of the ranges.
StatusOr<std::vector<ManifestObject>> UploadPart(Store& store, const PartOptions& options,
                                                 const Attempt& attempt, const EncodedPart& part,
                                                 const CombinedDigests& digests,
                                                 const ViewSource& after, bool anchor);

}  // namespace pulse
