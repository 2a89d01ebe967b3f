// Codec "small" of sparse updates on a CUDA device.
#pragma once

#include "device/memory.h"
#include "kernels/sparse_small/sparse_small_cuda_op.h"

namespace pulse::kernels {

// op over `blocks` blocks of which none has more than most_entries entries (the caller knows from
// the update's starts). scratch: TeamsFor(blocks) times SparseSmallScratch(most_entries) words,
// 8-byte aligned; contents do not matter. Enqueued on `stream`; all arrays must live until it has
// run. The bytes, and what is taken for bytes, are codec/sparse_small.h's. A non-zero code: the
// launch was refused, and nothing is enqueued.
DeviceCode SparseSmallEncodeCuda(const SparseSmallEncodeOp& op, uint64_t blocks,
                                 uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                 DeviceStream stream);
DeviceCode SparseSmallDecodeCuda(const SparseSmallDecodeOp& op, uint64_t blocks,
                                 uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                 DeviceStream stream);

}  // namespace pulse::kernels
