// Time, passed in: a real clock for programs, a virtual one for tests.
#pragma once

#include <cstdint>

namespace pulse {

// Thread-safe. Times are nanoseconds.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;               // steady, from an arbitrary origin
  virtual int64_t UnixNs() const = 0;              // wall clock, since 1970 UTC
  virtual void SleepFor(int64_t duration_ns) = 0;  // blocks the caller
};

class RealClock final : public Clock {
 public:
  int64_t NowNs() const override;
  int64_t UnixNs() const override;
  void SleepFor(int64_t duration_ns) override;
};

// Moves only when told to or slept on; sleeping returns at once. For single-threaded tests.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(int64_t unix_ns = 1'700'000'000'000'000'000) : unix_origin_ns_(unix_ns) {}
  int64_t NowNs() const override { return now_ns_; }
  int64_t UnixNs() const override { return unix_origin_ns_ + now_ns_; }
  void SleepFor(int64_t duration_ns) override { now_ns_ += duration_ns; }

 private:
  int64_t unix_origin_ns_;
  int64_t now_ns_ = 0;
};

}  // namespace pulse
