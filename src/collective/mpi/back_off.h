// How a rank waits for MPI, which can only be polled.
#pragma once

#include <sched.h>

#include "core/clock.h"

namespace pulse {

// Spins, then yields, then sleeps between polls. Ranks often outnumber cores, and the peer we wait
// for may need this very core. Not thread-safe.
class BackOff {
 public:
  explicit BackOff(Clock& clock) : clock_(clock) {}

  void Reset() { waits_ = 0; }
  void Wait() {
    ++waits_;
    if (waits_ <= kSpins) return;
    if (waits_ <= kSpins + kYields) {
      ::sched_yield();
    } else {
      clock_.SleepFor(kSleepNs);
    }
  }

 private:
  static constexpr int kSpins = 20;
  static constexpr int kYields = 100;
  static constexpr int64_t kSleepNs = 50'000;

  Clock& clock_;
  int waits_ = 0;
};

}  // namespace pulse
