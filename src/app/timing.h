// Times of repeated work, for benches.
#pragma once

#include <algorithm>
#include <vector>

#include "core/clock.h"

namespace pulse {

struct Timing {
  double best_s = 0;
  double median_s = 0;
  double worst_s = 0;
};

// Calls work() once unmeasured, then `repeats` (>= 1) times.
template <typename Work>
Timing TimeRepeated(Clock& clock, size_t repeats, Work work) {
  work();
  std::vector<double> seconds;
  for (size_t i = 0; i < repeats; ++i) {
    const int64_t begin_ns = clock.NowNs();
    work();
    seconds.push_back(static_cast<double>(clock.NowNs() - begin_ns) * 1e-9);
  }
  std::sort(seconds.begin(), seconds.end());
  return {.best_s = seconds.front(),
          .median_s = seconds[seconds.size() / 2],
          .worst_s = seconds.back()};
}

}  // namespace pulse
