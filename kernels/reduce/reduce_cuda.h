// reduce.h on a CUDA device. The order of launches on the stream is the order of the sum.
#pragma once

#include "device/memory.h"

namespace pulse::kernels {

// A SparseUpdate (core/sparse_update.h) in device memory: starts has blocks + 1 entries.
struct DeviceSparseUpdate {
  DeviceSpan<const uint64_t> starts;
  DeviceSpan<const uint32_t> positions;
  DeviceSpan<const float> values;
};

// The contracts of AddSparseFn, AddDenseFn and MeanFn on device memory, element-aligned; for the
// dense ones 16-byte alignment is faster. Enqueued on `stream`; the arrays must live until it has
// run. Bit-equal to the reference. The update was validated by who made it (Validate).
// A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode AddSparseCuda(DeviceSpan<float> sum, const DeviceSparseUpdate& update,
                         DeviceStream stream);
DeviceCode AddDenseCuda(DeviceSpan<float> sum, DeviceSpan<const float> addend, DeviceStream stream);
DeviceCode MeanCuda(DeviceSpan<float> sum, float trainers, DeviceStream stream);

}  // namespace pulse::kernels
