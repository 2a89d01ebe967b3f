// One publishing rank's share of a version: its ranges, encoded and uploaded as its own objects, so
// that a sharded trainer gathers nothing.
//
//   first rank   Publisher::Begin, told to all
//   every rank   RestoreBase of the attempt's base; EncodePart; all-gather of SerializePartDigests;
//   CombineParts first rank   Publisher::AnchorReason, told to all every rank   UploadPart; gather
//   of the objects first rank   Publisher::WriteManifest every rank   StagedBase::Stage first rank
//   Publisher::Commit, told to all every rank   StagedBase::Promote
//
// A rank that fails at any step tells the others, and nobody goes on: the head is as it was.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "store/filesystem.h"
#include "store/store.h"
#include "sync/manifest.h"
#include "sync/patch_writer.h"

namespace pulse {

// What all publishing ranks must agree on before they encode.
struct Attempt {
  VersionId id;
  std::optional<VersionId> base;  // whose view the delta starts from; none: there is no delta
  std::string anchor_reason;      // why there must be an anchor, or "" if that is still open
  RangeCodec codec = RangeCodec::kFast;  // of the delta
};

struct PartOptions {
  std::string run = "main";
  uint32_t part = 0;                     // this rank's number among the publishing ranks
  std::vector<TensorRange> ranges = {};  // what it owns (see CheckRanges); empty: everything
  int threads = 1;
  // Where blobs go beyond memory_bytes (a folder); empty: kResourceExhausted then.
  std::string spool_directory = "";
  uint64_t memory_bytes = uint64_t{256} << 20;
  bool read_back =
      true;  // fetch and hash every object; false trusts the store's answer for its size
};

// What a rank encoded for one attempt. Without a base there is no delta.
struct EncodedPart {
  std::optional<EncodedDelta> delta;
  PartDigests digests;
};

// before: null iff the attempt has no base.
StatusOr<EncodedPart> EncodePart(Filesystem& fs, const kernels::KernelTable& kernels,
                                 const PartOptions& options, const Attempt& attempt,
                                 const ViewSource* before, const ViewSource& after,
                                 const std::function<void(uint64_t)>& progress);

// Uploads the delta (if there is one) and, with `anchor`, the full bytes of the ranges, and checks
// what the store then holds.
StatusOr<std::vector<ManifestObject>> UploadPart(Store& store, const PartOptions& options,
                                                 const Attempt& attempt, const EncodedPart& part,
                                                 const CombinedDigests& digests,
                                                 const ViewSource& after, bool anchor);

// Puts `source` at `key` and checks what the store then holds: its size and, with read_back, every
// byte. An answer that was lost is no failure if the bytes are there. Returns the source's SHA-256.
StatusOr<std::string> PutAndVerify(Store& store, const std::string& key, const ByteSource& source,
                                   bool read_back);

}  // namespace pulse
