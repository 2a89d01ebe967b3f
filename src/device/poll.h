// Waiting for a device, which is polled so that every wait has a deadline.
#pragma once

#include <sched.h>

#include "core/clock.h"
#include "core/deadline.h"
#include "device/driver.h"

namespace pulse {

// done(): StatusOr<bool>. Yields at first, then sleeps 20 us between calls: well below a round's
// length, well above a poll's cost. kDeadlineExceeded (without text: the caller knows for whom)
// when the deadline passes first; what done() fails with.
template <typename Done>
Status PollUntil(Done done, Deadline deadline, Clock& clock) {
  constexpr int kYields = 200;
  constexpr int64_t kSleepNs = 20'000;
  for (int polls = 0;; ++polls) {
    PULSE_ASSIGN_OR_RETURN(const bool is_done, done());
    if (is_done) return OkStatus();
    if (deadline.Expired()) return DeadlineExceeded("");
    if (polls < kYields) {
      ::sched_yield();
    } else {
      clock.SleepFor(kSleepNs);
    }
  }
}

// Whether the event has happened.
inline StatusOr<bool> HasHappened(const DeviceDriver& driver, DeviceEvent event) {
  const DeviceCode code = driver.query(event);
  if (code == kDeviceNotReady) return false;
  PULSE_RETURN_IF_ERROR(DeviceStatus(driver, code, "waiting for the device"));
  return true;
}

}  // namespace pulse
