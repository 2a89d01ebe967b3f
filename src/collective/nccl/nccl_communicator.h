// Ranks that have a GPU each and talk over NCCL: NVLink, PCIe or InfiniBand inside a site.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective/call.h"
#include "collective/communicator.h"
#include "collective/device_communicator.h"
#include "collective/nccl/nccl_table.h"
#include "device/driver.h"

namespace pulse {

struct NcclOptions {
  NcclId id = {};  // the same on all ranks, fresh for every communicator
  int rank = 0;
  std::vector<std::string> hosts;  // one name a rank: that makes the size
  // Messages move in chunks of at most this, two chunks a peer in device memory at once.
  uint64_t chunk_bytes = uint64_t{16} << 20;
  uint64_t max_message_bytes = kDefaultMaxMessageBytes;
};

// Collective: all ranks open it with equal options but for the rank, from the thread that has
// selected its device and will make all calls. The tables and the clock must outlive it.
//
// A call begins with a header from every rank to every rank, as MPI's does, so that a disagreement
// is found before payload moves and a missing rank is named: its header is the one that is not
// there when the deadline passes. Messages in device memory go from there to there. Those on the
// host are staged through pinned memory; while one chunk is with NCCL, the one before goes back to
// the host. All waits poll the device's events and NCCL's asynchronous error, and after any error
// the NCCL communicator is aborted, which also ends kernels that wait for a peer. Every rank works
// on chunk c of all its messages in its c-th group of sends and receives.
//
// kInvalidArgument for a rank or chunk size that cannot be; kDeadlineExceeded when the ranks did
// not all open it; kUnavailable, kResourceExhausted as for calls.
StatusOr<std::unique_ptr<DeviceCommunicator>> OpenNcclCommunicator(const DeviceDriver& device,
                                                                   const NcclTable& nccl,
                                                                   Clock& clock,
                                                                   const NcclOptions& options,
                                                                   Deadline deadline);

// The same over the ranks of another communicator (MPI's), which brings rank 0's id to all, and
// gives ranks and hosts. Collective on `bootstrap`, which is not needed afterwards.
StatusOr<std::unique_ptr<DeviceCommunicator>> OpenNcclOver(Communicator& bootstrap,
                                                           const DeviceDriver& device,
                                                           const NcclTable& nccl, Clock& clock,
                                                           NcclOptions options, Deadline deadline);

}  // namespace pulse
