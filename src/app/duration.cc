#include "app/duration.h"

#include <algorithm>
#include <charconv>

namespace pulse {

StatusOr<uint64_t> ParseDurationMs(std::string_view text) {
  constexpr uint64_t kYearMs = uint64_t{366} * 86'400'000;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view unit = text.substr(digits);
  const uint64_t scale = unit == "ms" ? 1 : unit == "s" ? 1000 : unit == "m" ? 60'000 : 0;
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + digits, value);
  if (digits == 0 || scale == 0 || parsed.ec != std::errc() || value > kYearMs / scale) {
    return InvalidArgument("\"{}\": expected a duration with its unit, such as 500ms, 30s or 5m",
                           text);
  }
  return value * scale;
}

}  // namespace pulse
