// The configuration as the outer loop's options.
#pragma once

#include "app/config.h"
#include "loco/options.h"

namespace pulse {

// kInvalidArgument for a name that the loop does not know.
StatusOr<loco::Options> LocoOptions(const RunConfig& config);

}  // namespace pulse
