// What `bench codec` compares: our codecs and the forms that others use, each on one cell.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// A way to code the change of at most kCellBytes (sync/view.h) of BF16 words. Thread-safe.
struct BlockCodec {
  std::string name;
  std::function<StatusOr<Bytes>(ByteView before, ByteView after)> encode;
  std::function<Status(ByteView coded, ByteSpan words)> apply;  // in place
  std::function<uint64_t(ByteView before, ByteView after)>
      position_bytes;  // of `encode`'s; or none
};

// small, fast, raw (int32 and BF16), gaps (u16 and BF16), COO (the same as raw under zstd 1; the
// paper's deployed form), and zstd's patch-from. The table must outlive them.
std::vector<BlockCodec> BlockCodecs(const kernels::KernelTable& kernels);

}  // namespace pulse
