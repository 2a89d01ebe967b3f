// Patches between two checkpoint files, without a bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/digest.h"
#include "kernels/kernels.h"
#include "store/filesystem.h"
#include "sync/patch.h"

namespace pulse {

struct PatchFileOptions {
  RangeCodec codec = RangeCodec::kFast;  // of a diff; see EncodeOptions
  int threads = 1;
  uint64_t memory_bytes = uint64_t{256} << 20;  // of blobs; the rest spills beside the output
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

struct PatchFileResult {
  uint64_t patch_bytes = 0;
  uint64_t view_bytes = 0;
  uint64_t changed = 0;  // elements
  uint64_t elements = 0;
  Digest base_digest;
  Digest target_digest;
};

// Writes the change from checkpoint `before` to checkpoint `after` into the new file `patch_path`
// (replaced atomically). kFailedPrecondition names the tensor when the schemas differ.
StatusOr<PatchFileResult> DiffCheckpoints(Filesystem& fs, const kernels::KernelTable& kernels,
                                          const std::string& before, const std::string& after,
                                          const std::string& patch_path,
                                          const PatchFileOptions& options);

// Rebuilds `after` into the new file `out_path` (replaced atomically). kFailedPrecondition when
// `before` is not the patch's base, kDataLoss when the result is not what the patch promises; then
// nothing is left.
StatusOr<PatchFileResult> ApplyPatch(Filesystem& fs, const kernels::KernelTable& kernels,
                                     const std::string& before, const std::string& patch_path,
                                     const std::string& out_path, const PatchFileOptions& options);

}  // namespace pulse
