// The seals of collective/checked.h on messages in device memory.
#pragma once

#include "collective/checked.h"
#include "collective/device_communicator.h"
#include "loco/device/device_digests.h"

namespace pulse::loco {

// Not thread-safe. work and kernels must outlive it.
class DeviceSeals {
 public:
  DeviceSeals(DeviceWork& work, const kernels::DeviceKernels& kernels)
      : work_(work), digests_(work, kernels) {}

  // Writes the seal of what lies before them into the last kSealBytes of `message`; enqueued.
  Status Seal(DeviceSpan<uint8_t> message, Deadline deadline);

  // What was sealed of a message. Nothing where it arrived damaged.
  StatusOr<std::optional<DeviceMessage>> Open(DeviceMessage sealed, Deadline deadline);

 private:
  DeviceWork& work_;
  DeviceDigests digests_;
};

// How much of a sealed message its sender gave.
constexpr uint64_t BytesInside(DeviceMessage sealed) {
  return sealed.size - std::min<uint64_t>(sealed.size, CheckedCommunicator::kSealBytes);
}

}  // namespace pulse::loco
