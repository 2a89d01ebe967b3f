// adamw.h on a CUDA device.
#pragma once

#include "device/memory.h"
#include "kernels/adamw/adamw.h"

namespace pulse::kernels {

// The arrays of AdamWFn, in device memory, element-aligned; 16-byte alignment is faster.
struct DeviceAdamW {
  DeviceSpan<float> w, m, v;
  DeviceSpan<const float> g;
};

// The contract of AdamWFn. Enqueued on `stream`; the arrays must live until it has run. Bit-equal
// to the reference. A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode AdamWCuda(const AdamWScalars& scalars, const DeviceAdamW& arrays, DeviceStream stream);

}  // namespace pulse::kernels
