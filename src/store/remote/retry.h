// How often, and after which pause, something that failed for the moment is tried again.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>

#include "core/clock.h"

namespace pulse {

struct RetryOptions {
  int attempts = 7;               // the first included: with the delays below, some 6 s
  int64_t first_delay_ms = 100;   // doubled each time,
  int64_t max_delay_ms = 10'000;  // up to this; drawn between half of it and all
  int64_t total_ms = 300'000;     // no new attempt behind this
};

// Draws for the jitter. Thread-safe.
class Jitter {
 public:
  explicit Jitter(uint32_t seed) : engine_(seed) {}
  int64_t Between(int64_t low, int64_t high);  // both included

 private:
  std::mutex mutex_;
  std::minstd_rand engine_;  // guarded by mutex_
};

// The attempts of one operation. Not thread-safe.
class Retries {
 public:
  Retries(const RetryOptions& options, Clock& clock, Jitter& jitter)
      : options_(options), clock_(clock), jitter_(jitter), start_ns_(clock.NowNs()) {}

  // Waits until the next attempt; false if there is to be none. retry_after: what the server asked
  // for, which is kept unless it leads behind the total.
  bool WaitForNext(std::optional<int64_t> retry_after_ms);

  int attempts() const { return attempts_; }  // begun so far

 private:
  const RetryOptions& options_;
  Clock& clock_;
  Jitter& jitter_;
  const int64_t start_ns_;
  int attempts_ = 1;
};

// The value of a Retry-After header, seconds or a date, as milliseconds from now; nullopt if it is
// neither.
std::optional<int64_t> ParseRetryAfterMs(std::string_view value, int64_t now_unix_ns);

}  // namespace pulse
