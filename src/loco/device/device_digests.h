// Digests of arrays in device memory, tensor by tensor: those of core/digest.h.
#pragma once

#include <span>
#include <vector>

#include "core/digest.h"
#include "core/schema.h"
#include "device/work.h"
#include "kernels/device_kernels.h"

namespace pulse::loco {

// Scratch grows as needed. Not thread-safe. work and kernels must outlive it.
class DeviceDigests {
 public:
  DeviceDigests(DeviceWork& work, const kernels::DeviceKernels& kernels)
      : work_(work), kernels_(kernels) {}

  // One per tensor of `masters`, of its part of the flat array `values`. A last chunk of at most
  // 240 bytes comes to the host.
  StatusOr<std::vector<Digest>> Of(const ModelSchema& masters, DeviceSpan<const float> values,
                                   Deadline deadline);
  // The TensorDigest of some bytes.
  StatusOr<Digest> OfBytes(DeviceSpan<const uint8_t> bytes, Deadline deadline);

 private:
  StatusOr<std::vector<Digest>> OfPieces(std::span<const DeviceSpan<const uint8_t>> pieces,
                                         Deadline deadline);

  DeviceWork& work_;
  const kernels::DeviceKernels& kernels_;
  DeviceRoom digests_;
};

}  // namespace pulse::loco
