// cast_view.h on a CUDA device.
#pragma once

#include "device/memory.h"

namespace pulse::kernels {

// The contract of CastToBF16Fn, on device memory, element-aligned; 16-byte alignment is faster.
// Enqueued on `stream`; the arrays must live until it has run. Bit-equal to the reference.
// A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode CastToBF16Cuda(DeviceSpan<const float> in, DeviceSpan<uint16_t> out,
                          DeviceStream stream);

}  // namespace pulse::kernels
