// Ranks that are threads of one process: for tests, simulations and single-machine runs without
// MPI.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective/call.h"
#include "collective/communicator.h"

namespace pulse {

struct InProcessOptions {
  uint64_t max_message_bytes = kDefaultMaxMessageBytes;
  std::vector<std::string> hosts = {};  // one name a rank; empty: all are "localhost"
};

// One communicator per rank of a new group, in rank order; each is then used by one thread at a
// time. They share the group and may be destroyed in any order.
//
// Ranks meet at every call and copy straight from each other's buffers: one copy a receiver. A call
// waits for late ranks until its deadline; once all have met it ends without looking at the clock,
// as a copy inside one process always does. The first rank whose deadline passes breaks the group
// for all. A rank whose communicator is destroyed, or that failed alone, has left: others get
// kUnavailable instead of waiting for it. Ranks that make different calls all get kInternal.
//
// kInvalidArgument if size < 1, or hosts is neither empty nor of that size.
StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeInProcessGroup(
    int size, InProcessOptions options = {});

}  // namespace pulse
