// Two communicators as one: ranks of one site talk over the fast one that they share (NCCL), and
// with all others over the one that all share (MPI).
#pragma once

#include <memory>
#include <vector>

#include "collective/call.h"
#include "collective/communicator.h"
#include "collective/device_communicator.h"
#include "device/work.h"

namespace pulse {

struct SplitOptions {
  std::vector<int>
      members;  // inside's rank i is across's rank members[i]; ascending, holds this one
  uint64_t max_message_bytes = kDefaultMaxMessageBytes;
};

// Every call begins with a header from every rank to every rank over `across`, so that a missing
// rank is named and a disagreement is found before payload moves. An all-gather or all-to-all then
// goes inside, and after that across with the messages of others alone; a broadcast goes across.
// inside: of the ranks of this site, each in one. across: of all ranks; must outlive it, and be
// used by nobody else meanwhile. Errors are theirs. kInvalidArgument for members that can't be.
StatusOr<std::unique_ptr<Communicator>> OpenSplitCommunicator(std::unique_ptr<Communicator> inside,
                                                              Communicator& across,
                                                              const SplitOptions& options);

// The same with messages in device memory too: inside they go from there to there, and what goes
// across is staged on the host by `work`, which is then the communicator's alone.
StatusOr<std::unique_ptr<DeviceCommunicator>> OpenDeviceSplit(
    std::unique_ptr<DeviceCommunicator> inside, Communicator& across, DeviceWork work,
    const SplitOptions& options);

}  // namespace pulse
