// The calls of NCCL that the communicator makes, as a table: the real one is made in nccl_driver.h,
// the mocked one of the tests in mocked_nccl.h.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "device/memory.h"

namespace pulse {

// An ncclUniqueId: made by one rank, brought to all by other means (MPI, in app/).
using NcclId = std::array<uint8_t, 128>;

// A ncclResult_t; nccl_driver.cc compares those that decide something.
using NcclCode = int;
inline constexpr NcclCode kNcclInvalidArgument = 4;
inline constexpr NcclCode kNcclInvalidUsage = 5;
inline constexpr NcclCode kNcclInProgress = 7;

// Communicators are opened without blocking: init, group_end and finalize may return
// kNcclInProgress, and async_error says when they are done. Messages are bytes in device memory.
struct NcclTable {
  std::function<NcclCode(NcclId* id)> make_id;
  std::function<NcclCode(void** comm, int ranks, const NcclId& id, int rank)> init;
  // *state: 0 when all is well and done, kNcclInProgress, or what went wrong.
  std::function<NcclCode(void* comm, NcclCode* state)> async_error;
  std::function<NcclCode()> group_start, group_end;
  std::function<NcclCode(const void* from, uint64_t bytes, int peer, void* comm, DeviceStream)>
      send;
  std::function<NcclCode(void* to, uint64_t bytes, int peer, void* comm, DeviceStream)> receive;
  // Root sends `at`; the others receive there.
  std::function<NcclCode(void* at, uint64_t bytes, int root, void* comm, DeviceStream)> broadcast;
  // Gives the communicator back: after all its work (finalize, then destroy), or at once (abort).
  std::function<NcclCode(void*comm)> finalize, destroy, abort;
  std::function<std::string(NcclCode code)> describe;
};

}  // namespace pulse
