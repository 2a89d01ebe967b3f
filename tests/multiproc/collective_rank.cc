// One rank of a job that exchanges messages until something goes wrong: the subject of
// collective_faults.py. It tells its pid on stdout, then each round; an error goes to stderr, and
// the job ends with kExitCode.
//
// Usage: collective_rank MESSAGE_BYTES DEADLINE_MS abort|return [none|hang|kill|exit FAULTY_RANK]
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "collective/fault_injecting.h"
#include "collective/mpi/mpi_communicator.h"

namespace pulse {
namespace {

constexpr int kExitCode = 42;
constexpr uint64_t kFaultyOperation = 20;
// The survivors' reports are what the test reads: give even a crowded machine time to write them.
constexpr int64_t kGraceMs = 2000;

CommunicatorFaultPlan PlanFor(std::string_view fault) {
  using Action = CommunicatorFault::Action;
  if (fault == "hang") return {{.operation = kFaultyOperation, .action = Action::kHang}};
  if (fault == "kill") return {{.operation = kFaultyOperation, .action = Action::kKillProcess}};
  return {};
}

Status Round(Communicator& comm, const Bytes& mine, int64_t deadline_ms, Clock& clock) {
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(comm.AllGather(mine, all, Deadline::After(clock, deadline_ms)));
  return comm.Barrier(Deadline::After(clock, deadline_ms));
}

int Run(int argc, char** argv) {
  const Bytes mine(std::strtoull(argv[1], nullptr, 10));
  const int64_t deadline_ms = std::strtoll(argv[2], nullptr, 10);
  const bool aborts = std::string_view(argv[3]) == "abort";
  const std::string_view fault = argc > 5 ? argv[4] : "none";

  RealClock clock;
  auto session = MpiSession::Start(clock).value();
  const bool faulty = argc > 5 && session->rank() == std::atoi(argv[5]);
  auto mpi = OpenMpiCommunicator(*session, {}, Deadline::After(clock, 30'000)).value();
  FaultInjectingCommunicator comm(std::move(mpi), PlanFor(faulty ? fault : "none"), clock);
  std::printf("rank %d pid %d host %s\n", comm.rank(), ::getpid(),
              comm.HostOf(comm.rank()).c_str());
  std::fflush(stdout);

  Status status;
  for (int round = 0; status.ok(); ++round) {
    if (faulty && fault == "exit" && comm.operations() == kFaultyOperation) return 3;
    status = Round(comm, mine, deadline_ms, clock);
    if (comm.rank() == 0) std::printf("round %d\n", round);
    std::fflush(stdout);
  }
  std::fprintf(stderr, "rank %d failed: %s\n", comm.rank(), status.ToString().c_str());
  if (aborts) session->Abort(kExitCode, kGraceMs);
  clock.SleepFor(kGraceMs * 1'000'000);
  return kExitCode;
}

}  // namespace
}  // namespace pulse

int main(int argc, char** argv) {
  return pulse::Run(argc, argv);
}
