// outer_step.h on a CUDA device.
#pragma once

#include "device/memory.h"
#include "kernels/outer_step/outer_step.h"

namespace pulse::kernels {

// The contract of OuterStepFn, on device memory, element-aligned; 16-byte alignment is faster.
// Enqueued on `stream`; the arrays must live until it has run. Bit-equal to the reference.
// A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode OuterStepCuda(const OuterScalars& scalars, DeviceSpan<const float> sum,
                         DeviceSpan<float> momentum, DeviceSpan<float> theta, DeviceStream stream);

}  // namespace pulse::kernels
