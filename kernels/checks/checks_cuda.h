// The counts of checks_cuda_op.h on a CUDA device.
#pragma once

#include "device/memory.h"
#include "kernels/checks/checks_cuda_op.h"

namespace pulse::kernels {

// op over n elements; 16-byte alignment of its arrays is faster. op.count: one number in device
// memory, added to. Enqueued on `stream`; the arrays must live until it has run. A non-zero code:
// the launch was refused, and nothing is enqueued.
DeviceCode CountUnboundedCuda(const CountUnboundedOp& op, uint64_t n, DeviceStream stream);
DeviceCode CountNonZeroCuda(const CountNonZeroOp& op, uint64_t n, DeviceStream stream);
DeviceCode CountViewChangesCuda(const CountViewChangesOp& op, uint64_t n, DeviceStream stream);
DeviceCode OuterStepViewCuda(const OuterStepViewOp& op, uint64_t n, DeviceStream stream);

}  // namespace pulse::kernels
