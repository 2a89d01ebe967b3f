// This process's membership in an MPI job: MPI_Init to MPI_Finalize, and the way to end the job.
#pragma once

#include <memory>
#include <vector>

#include "core/status.h"

namespace pulse {

// One per process and lifetime, as MPI wants it; outlives every communicator made from it. MPI is
// asked for MPI_THREAD_SERIALIZED: any thread may call, one at a time in the whole process.
class MpiSession {
 public:
  // Blocks until all processes of the job have started; alone, without mpirun, it is a job of
  // size 1. kFailedPrecondition if MPI was started before in this process, or its threads do not
  // suffice.
  static StatusOr<std::unique_ptr<MpiSession>> Start();

  // MPI_Finalize, which waits for all ranks without a deadline: a rank that ends with an error
  // calls Abort instead. After a call that gave up with transfers in flight it is left out (they
  // would read freed memory, and the missing rank would not come anyway); mpirun then ends the job.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Ends all processes of the job, also those that hang or are stopped; mpirun returns exit_code
  // (1 to 255). Waits kAbortGraceMs before, as mpirun kills at once: the others, who are at most a
  // little later at their own deadlines, get to say whom they missed.
  static constexpr int kAbortGraceMs = 200;
  [[noreturn]] void Abort(int exit_code);

  // For communicators. What MPI may still touch after a call gave up: kept until the process ends.
  // From then on no communicator of this session calls MPI, so that a send whose buffer its caller
  // has freed can never be continued by us; `cause` is what they return instead.
  void KeepInFlight(std::shared_ptr<void> transfers, const Status& cause);
  const Status& broken() const { return broken_; }

 private:
  MpiSession(int rank, int size) : rank_(rank), size_(size) {}

  int rank_;
  int size_;
  Status broken_;
  std::vector<std::shared_ptr<void>> in_flight_;
};

}  // namespace pulse
