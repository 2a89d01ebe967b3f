#include "device/work.h"

#include "device/poll.h"

namespace pulse {

Status DeviceWork::Follow(const DeviceWork& other) {
  PULSE_RETURN_IF_ERROR(
      Did(driver_->record(other.done_.get(), other.stream()), "recording an event"));
  return Did(driver_->wait(stream(), other.done_.get()), "waiting for another stream");
}

Status DeviceWork::Wait(Deadline deadline) {
  PULSE_RETURN_IF_ERROR(Did(driver_->record(done_.get(), stream()), "recording an event"));
  const Status status =
      PollUntil([&] { return HasHappened(*driver_, done_.get()); }, deadline, *clock_);
  if (!absl::IsDeadlineExceeded(status)) return status;
  return DeadlineExceeded("the device did not finish its work in time");
}

}  // namespace pulse
