#include "collective/mpi/mpi_session.h"

#include <mpi.h>
#include <unistd.h>

#include <utility>

#include "collective/mpi/back_off.h"
#include "collective/mpi/mpi_status.h"
#include "core/deadline.h"

namespace pulse {

StatusOr<std::unique_ptr<MpiSession>> MpiSession::Start(Clock& clock) {
  int already = 0;
  MPI_Initialized(&already);
  if (already) return FailedPrecondition("MPI was already started in this process");
  int provided = MPI_THREAD_SINGLE;
  PULSE_RETURN_IF_ERROR(
      MpiStatus(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init"));
  // Errors come back as codes; MPI's default is to kill the job from inside the library.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto session = std::unique_ptr<MpiSession>(new MpiSession(clock, rank, size));
  if (provided < MPI_THREAD_SERIALIZED) {
    return FailedPrecondition(
        "this MPI offers thread level {}, MPI_THREAD_SERIALIZED ({}) is needed", provided,
        MPI_THREAD_SERIALIZED);
  }
  return session;
}

MpiSession::~MpiSession() {
  if (!broken_.ok()) {
    // Peers may still write into these; not even their destructors may run.
    for (std::shared_ptr<void>& transfers : in_flight_) {
      new std::shared_ptr<void>(std::move(transfers));
    }
    return;
  }
  if (AllRanksAreLeaving()) MPI_Finalize();
}

// MPI_Finalize has this wait inside, but neither a way out of it nor our politeness.
bool MpiSession::AllRanksAreLeaving() {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
  const Deadline deadline = failed_ ? Deadline::After(clock_, kLeaveTimeoutMs) : Deadline::Never();
  BackOff back_off(clock_);
  for (int done = 0;; back_off.Wait()) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done || deadline.Expired()) return done != 0;
  }
}

void MpiSession::Abort(int exit_code, int64_t grace_ms) {
  clock_.SleepFor(grace_ms * 1'000'000);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  ::_exit(exit_code);  // MPI_Abort is only asked to make a best effort
}

void MpiSession::KeepInFlight(std::shared_ptr<void> transfers, const Status& cause) {
  const std::lock_guard lock(mutex_);
  in_flight_.push_back(std::move(transfers));
  if (broken_.ok()) broken_ = cause;
}

std::string MpiFacts() {
  char words[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(words, &length) != MPI_SUCCESS) return "MPI of unknown version";
  const std::string_view all(words, static_cast<size_t>(length));
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

}  // namespace pulse
