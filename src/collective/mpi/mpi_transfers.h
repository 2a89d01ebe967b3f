// A set of messages between this rank and its peers, moved together in chunks. Internal to
// collective/mpi: includes mpi.h.
#pragma once

#include <mpi.h>

#include <mutex>
#include <vector>

#include "collective/chunk_plan.h"
#include "core/bytes.h"
#include "core/clock.h"
#include "core/deadline.h"
#include "core/status.h"

namespace pulse {

// Add messages, then Run once. Lengths are agreed before: sender and receiver name the same one.
// Messages between two ranks with one tag arrive in the order of being added. Memory must stay
// valid until Run returned OK or CancelAll returned true.
class MpiTransfers {
 public:
  // chunk_bytes: 1 to INT_MAX, as MPI counts are ints; equal on both ends. calls: MpiSession's;
  // must outlive this.
  MpiTransfers(MPI_Comm comm, int tag, uint64_t chunk_bytes, std::mutex& calls);
  MpiTransfers(const MpiTransfers&) = delete;
  MpiTransfers& operator=(const MpiTransfers&) = delete;

  void Send(int peer, ByteView message);
  void Receive(int peer, ByteSpan message);

  // Blocks until everything has moved. kDeadlineExceeded (without text: the caller knows the names)
  // when the deadline passes first; else the error of MPI.
  Status Run(Deadline deadline, Clock& clock);

  // After a failed Run: the peers that have not sent everything; if none, those that have not taken
  // everything. Ascending.
  std::vector<int> LatePeers() const;

  // Cancels what is in flight, as far as MPI can: a receive that has not begun. True if nothing
  // remains in flight; else MPI, or a peer, may touch the memory until the process ends.
  bool CancelAll();

 private:
  struct Message {
    int peer;
    bool is_send;
    uint8_t* bytes;  // of a send only read
    ChunkPlan chunks;
    uint64_t posted = 0;
    uint64_t done = 0;
  };

  void Add(int peer, bool is_send, uint8_t* bytes, uint64_t size);
  // The next three with calls_ held.
  Status PostAll();
  StatusOr<int> Progress();  // how many chunks have moved
  Status PostNext(size_t slot);
  Status Complete(size_t slot, const MPI_Status& status);

  MPI_Comm comm_;
  int tag_;
  uint64_t chunk_bytes_;
  std::mutex& calls_;
  std::vector<Message> messages_;
  // Slot s holds a chunk of message s / kChunksInFlight, of expected_bytes_[s].
  std::vector<MPI_Request> requests_;
  std::vector<int> expected_bytes_;
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
  uint64_t in_flight_ = 0;
};

}  // namespace pulse
