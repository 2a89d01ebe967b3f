// adamw_view.h on a CUDA device, over a whole array.
#pragma once

#include "device/memory.h"
#include "kernels/adamw/adamw_cuda.h"
#include "kernels/cuda/compact.h"

namespace pulse::kernels {

// The contract of AdamWViewFn; target (compact.h) gets the positions at which the view changed. In
// one pass: 30 bytes moved per element. Enqueued on `stream`; the arrays must live until it has
// run. Bit-equal to the reference. A non-zero code: the launch was refused, and nothing is
// enqueued.
DeviceCode AdamWViewCuda(const AdamWScalars& scalars, const DeviceAdamW& arrays,
                         DeviceSpan<uint16_t> view, const CompactTarget& target,
                         DeviceStream stream);

}  // namespace pulse::kernels
