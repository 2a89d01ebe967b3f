// Durations as people write them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/status.h"

namespace pulse {

// "500ms", "30s", "5m" -> milliseconds. kInvalidArgument without a unit (30 what?), for another
// unit, or above a year.
StatusOr<uint64_t> ParseDurationMs(std::string_view text);

}  // namespace pulse
