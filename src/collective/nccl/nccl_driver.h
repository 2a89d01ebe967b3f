// NCCL behind the table of nccl_table.h.
#pragma once

#include <string>

#include "collective/nccl/nccl_table.h"

namespace pulse {

NcclTable NcclDriver();

// "NCCL 2.28.9".
std::string NcclFacts();

}  // namespace pulse
