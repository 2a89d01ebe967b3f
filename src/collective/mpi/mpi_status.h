// Translates MPI's error codes. The only place that knows them.
#pragma once

#include <string_view>

#include "core/status.h"

namespace pulse {

// OK for MPI_SUCCESS. Else `call` ("MPI_Isend to rank 3 (host7)"), MPI's own text, and
// kResourceExhausted when memory ran out, kInternal when we misused MPI, kUnavailable for the rest:
// connection lost, process gone, fabric trouble.
Status MpiStatus(int error_code, std::string_view call);

}  // namespace pulse
