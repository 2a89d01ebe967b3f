// TreeSum of loco/trainer_ranks.h on arrays in device memory, with the same bits.
#pragma once

#include <vector>

#include "device/work.h"
#include "kernels/device_kernels.h"

namespace pulse::loco {

// Memory: one array per level, kept for the next sum. Not thread-safe. work and kernels must
// outlive it.
class DeviceTreeSum {
 public:
  DeviceTreeSum(DeviceWork& work, const kernels::DeviceKernels& kernels)
      : work_(work), kernels_(kernels) {}

  // Forgets the leaves so far.
  void Start();
  // Equal lengths since Start. The leaf may be overwritten by what is enqueued next.
  Status Add(DeviceSpan<const float> leaf);
  // sum: overwritten with the sum of all leaves, whose number is a power of two.
  Status Finish(DeviceSpan<float> sum);

 private:
  StatusOr<DeviceSpan<float>> FreeArray(uint64_t elements);

  DeviceWork& work_;
  const kernels::DeviceKernels& kernels_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<DeviceSpan<float>> free_;
  std::vector<DeviceSpan<float>> levels_;  // levels_[l]: the pending sum of 2^l leaves, or none
};

}  // namespace pulse::loco
