// One thread's work on a device: a stream, the way over the bus, and memory that grows as needed.
#pragma once

#include <optional>
#include <span>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/deadline.h"
#include "device/resources.h"
#include "device/staging_ring.h"

namespace pulse {

template <typename T>
DeviceSpan<const uint8_t> DeviceBytes(DeviceSpan<T> span) {
  return {reinterpret_cast<const uint8_t*>(span.data), span.size_bytes()};
}
template <typename T>
DeviceSpan<uint8_t> WritableBytes(DeviceSpan<T> span) {
  return {reinterpret_cast<uint8_t*>(span.data), span.size_bytes()};
}

// Device memory that is made anew when more is asked for. Contents are lost then.
class DeviceRoom {
 public:
  // n elements, aligned to 256 bytes.
  template <typename T>
  StatusOr<DeviceSpan<T>> Get(const DeviceDriver& driver, uint64_t n) {
    if (n * sizeof(T) > memory_.span().size || memory_.get() == nullptr) {
      memory_ = DeviceBuffer();  // first: both need not fit at once
      // An eighth more than asked for: counts of rounds are about alike.
      const uint64_t bytes = n * sizeof(T) + n * sizeof(T) / 8 + 256;
      PULSE_ASSIGN_OR_RETURN(memory_, DeviceBuffer::Open(driver, bytes));
    }
    return DeviceSpan<T>(reinterpret_cast<T*>(memory_.get()), n);
  }
  uint64_t bytes() const { return memory_.span().size; }

 private:
  DeviceBuffer memory_;
};

// Everything is enqueued on one stream, in the order of the calls. Not thread-safe. driver and
// clock must outlive it.
class DeviceWork {
 public:
  static StatusOr<DeviceWork> Open(const DeviceDriver& driver, Clock& clock,
                                   const StagingOptions& staging = {}) {
    DeviceWork work(driver, clock);
    PULSE_ASSIGN_OR_RETURN(work.stream_, OwnedStream::Open(driver));
    PULSE_ASSIGN_OR_RETURN(work.done_, OwnedEvent::Open(driver));
    PULSE_ASSIGN_OR_RETURN(work.staging_, StagingRing::Open(driver, clock, staging));
    return work;
  }

  const DeviceDriver& driver() const { return *driver_; }
  Clock& clock() const { return *clock_; }
  DeviceStream stream() const { return stream_.get(); }

  // As StagingRing's; bytes over the bus are counted.
  template <typename T>
  Status Up(std::span<const T> from, DeviceSpan<T> to, Deadline deadline) {
    bytes_up_ += from.size_bytes();
    return staging_->Upload(AsBytes(from), WritableBytes(to), stream(), deadline);
  }
  template <typename T>
  Status Down(DeviceSpan<const T> from, std::span<T> to, Deadline deadline) {
    bytes_down_ += to.size_bytes();
    return staging_->Download(DeviceBytes(from),
                              {reinterpret_cast<uint8_t*>(to.data()), to.size_bytes()}, stream(),
                              deadline);
  }
  // On the device.
  template <typename T>
  Status Copy(DeviceSpan<const T> from, DeviceSpan<T> to) {
    if (from.size != to.size) return Internal("copy of {} elements to {}", from.size, to.size);
    if (from.size == 0) return OkStatus();
    return Did(driver_->copy(to.data, from.data, from.size_bytes(), stream()), "copying");
  }
  template <typename T>
  Status Zero(DeviceSpan<T> at) {
    if (at.size == 0) return OkStatus();
    return Did(driver_->fill(at.data, 0, at.size_bytes(), stream()), "clearing");
  }
  // What a launch or a call of the driver's returned.
  Status Did(DeviceCode code, std::string_view what) const {
    return DeviceStatus(*driver_, code, what);
  }
  // What is enqueued here from now on runs after what is on the other's stream by now.
  Status Follow(const DeviceWork& other);
  // Until everything enqueued so far has run.
  Status Wait(Deadline deadline);

  uint64_t bytes_up() const { return bytes_up_; }
  uint64_t bytes_down() const { return bytes_down_; }

 private:
  DeviceWork(const DeviceDriver& driver, Clock& clock) : driver_(&driver), clock_(&clock) {}

  const DeviceDriver* driver_;
  Clock* clock_;
  OwnedStream stream_;
  OwnedEvent done_;
  std::optional<StagingRing> staging_;
  uint64_t bytes_up_ = 0, bytes_down_ = 0;
};

}  // namespace pulse
