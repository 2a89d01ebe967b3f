#include "core/clock.h"

#include <chrono>
#include <thread>

namespace pulse {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;

int64_t RealClock::NowNs() const {
  return duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t RealClock::UnixNs() const {
  return duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void RealClock::SleepFor(int64_t duration_ns) {
  std::this_thread::sleep_for(nanoseconds(duration_ns));
}

}  // namespace pulse
