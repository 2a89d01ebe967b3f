// NCCL, where it was built and is installed (collective/nccl/plugin.h).
#pragma once

#include <string>

#include "collective/nccl/nccl_table.h"
#include "core/status.h"

namespace pulse {

// kUnimplemented where it was not built; kFailedPrecondition where NCCL's own library is missing.
StatusOr<NcclTable> LoadNccl();

// "NCCL 2.28.9". Errors as above.
StatusOr<std::string> NcclVersion();

}  // namespace pulse
