// A communicator whose messages may lie in device memory: they go from there to there, without a
// copy on the host.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "collective/communicator.h"
#include "device/memory.h"

namespace pulse {

using DeviceMessage = DeviceSpan<const uint8_t>;

// Gives device memory for what is announced; called once a call, when its size is known. An error
// ends the call on all ranks.
using DeviceInbox = std::function<StatusOr<DeviceSpan<uint8_t>>(uint64_t bytes)>;

// The calls of Communicator on device memory: the same calls as far as other ranks see, so some
// ranks may have theirs on the host. `ready`: has happened when the messages are written (on the
// caller's stream); no event: they are. When a call returns, what it received is there; received
// messages begin at multiples of 16 bytes of the inbox. This rank's own message is not copied.
// Errors as of Communicator.
class DeviceCommunicator : public Communicator {
 public:
  // all[r] becomes rank r's `mine`.
  virtual Status AllGatherOnDevice(DeviceMessage mine, DeviceEvent ready, const DeviceInbox& inbox,
                                   std::vector<DeviceMessage>& all, Deadline deadline) = 0;

  // from[r] becomes what rank r gave for this rank. to.size() == size().
  virtual Status AllToAllOnDevice(std::span<const DeviceMessage> to, DeviceEvent ready,
                                  const DeviceInbox& inbox, std::vector<DeviceMessage>& from,
                                  Deadline deadline) = 0;

  // *data of root becomes *data of every other rank, in its inbox.
  virtual Status BroadcastOnDevice(int root, DeviceMessage* data, DeviceEvent ready,
                                   const DeviceInbox& inbox, Deadline deadline) = 0;
};

}  // namespace pulse
