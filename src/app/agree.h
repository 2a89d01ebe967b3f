// How ranks of one job fail together, so that nobody waits for one that has given up.
#pragma once

#include <vector>

#include "collective/communicator.h"
#include "core/bytes.h"
#include "core/deadline.h"
#include "core/status.h"

namespace pulse {

// Collective. Every rank's bytes; or, where some rank brings an error, the lowest such rank's on
// all ranks (another rank's under its number and host). The communicator's errors.
StatusOr<std::vector<Bytes>> Agree(Communicator& communicator, const StatusOr<Bytes>& mine,
                                   Deadline deadline);

}  // namespace pulse
