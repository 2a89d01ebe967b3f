// This process's membership in an MPI job: MPI_Init to MPI_Finalize, and the way to end the job.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace pulse {

// One per process and lifetime, as MPI wants it; outlives every communicator made from it. MPI is
// asked for MPI_THREAD_SERIALIZED: one call at a time in the whole process, which calls() sees to.
// So several threads may wait at once, each on communicators of its own.
class MpiSession {
 public:
  // Blocks until all processes of the job have started; alone, without mpirun, it is a job of
  // size 1. `clock` must outlive the session; it times the sleeps of all that waits for MPI.
  // kFailedPrecondition if MPI was started before in this process, or its threads do not suffice.
  static StatusOr<std::unique_ptr<MpiSession>> Start(Clock& clock);

  // Waits for all ranks to come here, then MPI_Finalize. Without a deadline, as a rank may have
  // long work of its own to finish; but once a call has failed, for kLeaveTimeoutMs only: a missing
  // rank will not come. Then, or with transfers still in flight, MPI_Finalize is left out, and
  // mpirun ends the job when this process exits.
  ~MpiSession();
  static constexpr int64_t kLeaveTimeoutMs = 5000;
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Ends all processes of the job, also those that hang or are stopped; mpirun returns exit_code
  // (1 to 255). As mpirun kills at once, it first sleeps for the grace: the others, who reach their
  // own deadlines at most a little later, get to say whom they missed.
  [[noreturn]] void Abort(int exit_code, int64_t grace_ms = kAbortGraceMs);
  static constexpr int64_t kAbortGraceMs = 200;

  Clock& clock() const { return clock_; }

  // For communicators: held during every call of MPI, but not between them.
  std::mutex& calls() { return calls_; }

  // For communicators: a call failed.
  void NoteFailure() { failed_ = true; }

  // For communicators: what MPI may still touch after a call gave up: kept until the process ends.
  // From then on no communicator of this session calls MPI, so that a send whose buffer its caller
  // has freed can never be continued by us; `cause` is what they return instead.
  void KeepInFlight(std::shared_ptr<void> transfers, const Status& cause);
  Status broken() const {
    const std::lock_guard lock(mutex_);
    return broken_;
  }

 private:
  MpiSession(Clock& clock, int rank, int size) : clock_(clock), rank_(rank), size_(size) {}
  bool AllRanksAreLeaving();

  Clock& clock_;
  const int rank_;
  const int size_;
  std::atomic<bool> failed_ = false;
  std::mutex calls_;
  mutable std::mutex mutex_;  // guards the next two
  Status broken_;
  std::vector<std::shared_ptr<void>> in_flight_;
};

// "Open MPI v4.1.4": what is linked. MPI need not have been started.
std::string MpiFacts();

}  // namespace pulse
