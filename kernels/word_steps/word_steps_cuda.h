// Codec "fast" up to its zstd frames on a CUDA device: word deltas of BF16 and F32 words, and
// sparse updates.
#pragma once

#include "device/memory.h"
#include "kernels/word_steps/word_steps_cuda_op.h"

namespace pulse::kernels {

// op over `blocks` blocks. scratch, of those that decode: TeamsFor(blocks) times
// GapsScratch(most_entries) words; contents do not matter. Enqueued on `stream`; all arrays must
// live until it has run. A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode WordStepsEncodeCuda(const WordStepsEncodeOp<uint16_t>& op, uint64_t blocks,
                               DeviceStream stream);
DeviceCode WordStepsEncodeCuda(const WordStepsEncodeOp<uint32_t>& op, uint64_t blocks,
                               DeviceStream stream);
DeviceCode WordStepsApplyCuda(const WordStepsApplyOp<uint16_t>& op, uint64_t blocks,
                              uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                              DeviceStream stream);
DeviceCode WordStepsApplyCuda(const WordStepsApplyOp<uint32_t>& op, uint64_t blocks,
                              uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                              DeviceStream stream);
DeviceCode SparseFastEncodeCuda(const SparseFastEncodeOp& op, uint64_t blocks, DeviceStream stream);
DeviceCode SparseFastDecodeCuda(const SparseFastDecodeOp& op, uint64_t blocks,
                                uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                DeviceStream stream);

}  // namespace pulse::kernels
