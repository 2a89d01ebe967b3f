// adamw.h on a CUDA device; alone, or in one pass with the cast to the view and its diff.
#pragma once

#include "device/memory.h"
#include "kernels/adamw/adamw.h"
#include "kernels/cuda/compact.h"

namespace pulse::kernels {

// The arrays of AdamWFn, in device memory, element-aligned; 16-byte alignment is faster.
struct DeviceAdamW {
  DeviceSpan<float> w, m, v;
  DeviceSpan<const float> g;
};

// The contract of AdamWFn. Enqueued on `stream`; the arrays must live until it has run. Bit-equal
// to the reference. A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode AdamWCuda(const AdamWScalars& scalars, const DeviceAdamW& arrays, DeviceStream stream);

// AdamWCuda, then view = BF16(w) as cast_view.h has it; target (compact.h) gets the positions at
// which the view's bits changed. In one pass: 32 bytes moved per element, where the three kernels
// one after the other move 28 + 6 + 4 and need a second view.
DeviceCode AdamWViewCuda(const AdamWScalars& scalars, const DeviceAdamW& arrays,
                         DeviceSpan<uint16_t> view, const CompactTarget& target,
                         DeviceStream stream);

}  // namespace pulse::kernels
