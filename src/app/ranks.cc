#include "app/ranks.h"

#include <fmt/format.h>

#include <cstdio>

#include "app/exit_code.h"
#include "collective/mpi/mpi_communicator.h"

namespace pulse {
namespace {

// All ranks return the same error, so rank 0 speaks for them; but when the others are out of reach,
// each says what it knows.
bool Speaks(const Status& status, int rank) {
  return rank == 0 || status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kUnavailable;
}

}  // namespace

Status RunAsRank(Environment& env, const std::function<Status(MpiSession&, Communicator&)>& job) {
  constexpr int64_t kStartTimeoutMs = 120'000;  // for the last rank to be started
  PULSE_ASSIGN_OR_RETURN(const auto session, MpiSession::Start(env.clock));
  const auto run = [&]() -> Status {
    PULSE_ASSIGN_OR_RETURN(
        const auto communicator,
        OpenMpiCommunicator(*session, {}, Deadline::After(env.clock, kStartTimeoutMs)));
    return job(*session, *communicator);
  };
  const Status status = run();
  if (status.ok() || session->size() == 1) return status;
  if (Speaks(status, session->rank())) {
    fmt::print(stderr, "pulseloco: {}\n", ToStd(status.message()));
    std::fflush(stderr);
  }
  session->Abort(static_cast<int>(ExitCodeOf(status)));
}

}  // namespace pulse
