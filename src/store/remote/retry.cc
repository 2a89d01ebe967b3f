#include "store/remote/retry.h"

#include <algorithm>
#include <charconv>

#include "store/remote/http.h"

namespace pulse {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kMaxRetryAfterSeconds = 1 << 30;

}  // namespace

int64_t Jitter::Between(int64_t low, int64_t high) {
  const std::lock_guard lock(mutex_);
  return std::uniform_int_distribution<int64_t>(low, high)(engine_);
}

bool Retries::WaitForNext(std::optional<int64_t> retry_after_ms) {
  if (attempts_ >= options_.attempts) return false;
  int64_t delay_ms = options_.max_delay_ms;
  if (attempts_ <= 20) {
    delay_ms = std::min(delay_ms, options_.first_delay_ms << (attempts_ - 1));
  }
  delay_ms = jitter_.Between(delay_ms / 2, delay_ms);
  if (retry_after_ms) delay_ms = std::max(delay_ms, *retry_after_ms);
  const int64_t elapsed_ms = (clock_.NowNs() - start_ns_) / kNsPerMs;
  if (elapsed_ms + delay_ms > options_.total_ms) return false;
  clock_.SleepFor(delay_ms * kNsPerMs);
  ++attempts_;
  return true;
}

std::optional<int64_t> ParseRetryAfterMs(std::string_view value, int64_t now_unix_ns) {
  int64_t seconds = 0;
  const char* const end = value.data() + value.size();
  if (const auto [at, error] = std::from_chars(value.data(), end, seconds);
      error == std::errc() && at == end) {
    return std::clamp<int64_t>(seconds, 0, kMaxRetryAfterSeconds) * 1000;
  }
  const auto date = ParseHttpDate(value);
  if (!date) return std::nullopt;
  return std::max<int64_t>(0, *date - now_unix_ns) / kNsPerMs;
}

}  // namespace pulse
