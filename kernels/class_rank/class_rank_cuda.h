// class_rank.h on a CUDA device, for the classes of FP32 weights, over a whole array.
#pragma once

#include "device/memory.h"
#include "kernels/class_rank/class_rank_cuda_op.h"

namespace pulse::kernels {

// op over `blocks` blocks of 2^20 elements. scratch: TeamsFor(blocks) times kClassRankScratch
// words; contents do not matter. Enqueued on `stream`; the arrays must live until it has run. Equal
// to the reference. A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode ClassRankCuda(const ClassRankOp& op, uint64_t blocks, DeviceSpan<uint32_t> scratch,
                         DeviceStream stream);
DeviceCode ClassSelectCuda(const ClassSelectOp& op, uint64_t blocks, DeviceSpan<uint32_t> scratch,
                           DeviceStream stream);

}  // namespace pulse::kernels
