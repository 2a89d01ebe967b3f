// Codec "small" of word deltas on a CUDA device, for the words that a view of FP32 masters has:
// BF16 and F32.
#pragma once

#include "device/memory.h"
#include "kernels/small_delta/small_delta_cuda_op.h"

namespace pulse::kernels {

// op over `blocks` blocks of which none has more than most_entries changes (the caller knows from
// the diff, or from the container's directory). scratch: TeamsFor(blocks) times
// SmallDeltaScratch(most_entries) words, 8-byte aligned; contents do not matter. Enqueued on
// `stream`; all arrays must live until it has run. The bytes, and what is taken for bytes, are
// codec/small_delta.h's. A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode SmallDeltaEncodeCuda(const SmallDeltaEncodeOp<uint16_t>& op, uint64_t blocks,
                                uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                DeviceStream stream);
DeviceCode SmallDeltaEncodeCuda(const SmallDeltaEncodeOp<uint32_t>& op, uint64_t blocks,
                                uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                DeviceStream stream);
DeviceCode SmallDeltaApplyCuda(const SmallDeltaApplyOp<uint16_t>& op, uint64_t blocks,
                               uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                               DeviceStream stream);
DeviceCode SmallDeltaApplyCuda(const SmallDeltaApplyOp<uint32_t>& op, uint64_t blocks,
                               uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                               DeviceStream stream);

}  // namespace pulse::kernels
