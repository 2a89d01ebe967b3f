// Digests of arrays in device memory, tensor by tensor: those of core/digest.h and DigestsOf.
#pragma once

#include <span>
#include <vector>

#include "core/digest.h"
#include "core/schema.h"
#include "device/work.h"
#include "kernels/device_kernels.h"
#include "loco/round_closing.h"

namespace pulse::loco {

// Scratch grows as needed. Not thread-safe. work and kernels must outlive it.
class DeviceDigests {
 public:
  DeviceDigests(DeviceWork& work, const kernels::DeviceKernels& kernels)
      : work_(work), kernels_(kernels) {}

  // As DigestsOf (loco/round_closing.h), of elements [begin, begin + values.size) of the flat
  // array, which begin where a chunk does. What a tensor ends with of at most 240 bytes comes to
  // the host.
  StatusOr<ArrayDigests> Of(const ModelSchema& masters, DeviceSpan<const float> values,
                            uint64_t begin, Deadline deadline);
  // The TensorDigest of some bytes.
  StatusOr<Digest> OfBytes(DeviceSpan<const uint8_t> bytes, Deadline deadline);

 private:
  // The chunks of each piece.
  StatusOr<std::vector<std::vector<Digest>>> OfPieces(
      std::span<const DeviceSpan<const uint8_t>> pieces, Deadline deadline);

  DeviceWork& work_;
  const kernels::DeviceKernels& kernels_;
  DeviceRoom digests_;
};

}  // namespace pulse::loco
