// Ranks that are MPI processes.
#pragma once

#include <memory>
#include <vector>

#include "collective/call.h"
#include "collective/communicator.h"
#include "collective/mpi/mpi_session.h"

namespace pulse {

struct MpiOptions {
  // Messages move in chunks of at most this; 1 to 1 GiB, as MPI 3 counts in 32-bit ints. 64 MiB is
  // far past what any fabric needs to reach its bandwidth, and small against a model.
  uint64_t chunk_bytes = uint64_t{64} << 20;
  // No buffer is made for more. Bounds one call's memory to size() times this.
  uint64_t max_message_bytes = kDefaultMaxMessageBytes;
};

// A communicator of all ranks of the job, on a communicator duplicated from MPI_COMM_WORLD so that
// no other library's messages meet ours. Collective and blocking: all ranks open the same number of
// communicators in the same order, with equal options. `session` must outlive it. Of the calls of
// all communicators of one process, one may run at a time.
//
// Every call begins with a header from every rank to every rank, so that a missing rank is named by
// all others and a disagreement is found before payload moves. Payload then goes straight from its
// owner to each receiver, all pairs at once: (K-1)*n bytes received per rank, as with a ring, but
// in one step, without waiting for what a slow link brings to a neighbour. A broadcast of n bytes
// sends a K-th to each rank, and these exchange the shares: 2n bytes out of the root at any K.
//
// Waiting ranks poll with a few spins and yields, then sleep 50 us between polls.
//
// After an error in which transfers remained in flight (a peer stopped half-way), the whole session
// is broken and its process has to end by MpiSession::Abort.
// kInvalidArgument for chunk_bytes out of range; kDeadlineExceeded, kUnavailable as for calls.
StatusOr<std::unique_ptr<Communicator>> OpenMpiCommunicator(MpiSession& session,
                                                            const MpiOptions& options,
                                                            Deadline deadline);

// The same of some ranks of the job: members[i], a rank of the job, is the group's rank i. All
// ranks of the job open at the same time, each a group that holds it, and no two groups overlap;
// calls are then collective among the members alone. kInvalidArgument for members out of range,
// twice, or without this rank.
StatusOr<std::unique_ptr<Communicator>> OpenMpiGroup(MpiSession& session,
                                                     const std::vector<int>& members,
                                                     const MpiOptions& options, Deadline deadline);

}  // namespace pulse
