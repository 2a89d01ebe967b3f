// Moves bytes between the ranks of a job. Bytes only: no arithmetic, so that the order of every sum
// is ours (docs/design.md, "One canonical sum").
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/deadline.h"
#include "core/status.h"

namespace pulse {

// A group of ranks. Every call is collective: all ranks make the same calls in the same order, from
// one thread each, and the call blocks. Lengths are 64-bit; what lies under it is fed in chunks.
//
// Errors: kDeadlineExceeded when a peer did not arrive in time, naming the missing ranks and their
// hosts; kUnavailable when the transport failed; kResourceExhausted when a peer announces more than
// the limit the communicator was opened with; kInternal when ranks make different calls, on all of
// them and naming who calls what; kInvalidArgument for a root or a number of messages that cannot
// be. After any error the communicator is broken: further calls return that error. Outputs are
// written only on success.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& HostOf(int rank) const = 0;

  // all[r] becomes rank r's `mine`; lengths may differ and may be 0.
  virtual Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) = 0;

  // from[r] becomes what rank r gave for this rank. to.size() == size().
  virtual Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                          Deadline deadline) = 0;

  // `data` of root replaces `data` of every other rank.
  virtual Status Broadcast(int root, Bytes& data, Deadline deadline) = 0;

  virtual Status Barrier(Deadline deadline) = 0;

  // Payload bytes that this rank has received from others so far (framing not counted).
  virtual uint64_t BytesReceived() const = 0;
};

}  // namespace pulse
