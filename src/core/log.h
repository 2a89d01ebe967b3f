// Logging: spdlog, passed in as a reference and never reached through a global.
#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

namespace pulse {

using Logger = spdlog::logger;

// Writes to stderr. level: "trace", "debug", "info", "warn", "error" or "off". `who` stands in each
// line ("rank 3"); empty for none.
StatusOr<std::shared_ptr<Logger>> MakeLogger(std::string_view level, std::string who);

// Drops everything: for tests and libraries' callers that do not care.
std::shared_ptr<Logger> NullLogger();

}  // namespace pulse
