// Which trainers stand behind one slow link, where the configuration names no list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"

namespace pulse {

// names[r]: what rank r calls its site. One entry per trainer, numbered in order of first
// appearance. kInvalidArgument if ranks of one trainer are at different sites, or a name is empty.
StatusOr<std::vector<uint32_t>> SitesOf(std::span<const std::string> names,
                                        uint32_t ranks_per_trainer);

}  // namespace pulse
