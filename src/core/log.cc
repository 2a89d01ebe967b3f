#include "core/log.h"

#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace pulse {

StatusOr<std::shared_ptr<Logger>> MakeLogger(std::string_view level, std::string who) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    return InvalidArgument("log level \"{}\": expected trace, debug, info, warn, error or off",
                           level);
  }
  auto logger = std::make_shared<Logger>(who, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(who.empty() ? "%H:%M:%S.%e %l %v" : "%H:%M:%S.%e %n %l %v");
  logger->set_level(parsed);
  return logger;
}

std::shared_ptr<Logger> NullLogger() {
  return std::make_shared<Logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace pulse
