// The moment at which a wait gives up.
#pragma once

#include <cstdint>
#include <limits>

#include "core/clock.h"

namespace pulse {

// A value; the clock must outlive it.
class Deadline {
 public:
  static Deadline Never() { return Deadline(nullptr, std::numeric_limits<int64_t>::max()); }
  static Deadline After(const Clock& clock, int64_t timeout_ms) {
    return Deadline(&clock, clock.NowNs() + timeout_ms * 1'000'000);
  }

  bool Expired() const { return RemainingNs() <= 0; }
  // Not above zero once expired; the largest int64 for Never().
  int64_t RemainingNs() const { return clock_ ? at_ns_ - clock_->NowNs() : at_ns_; }

 private:
  Deadline(const Clock* clock, int64_t at_ns) : clock_(clock), at_ns_(at_ns) {}
  const Clock* clock_;
  int64_t at_ns_;
};

}  // namespace pulse
