// One rank of a job of the outer loop to which something happens: the subject of loco_faults.py. It
// tells its pid on stdout, rank 0 each round; an error goes to stderr, and the job ends with the
// program's exit code for it.
//
// Usage: loco_rank DEADLINE_MS FAULT FAULTY_RANK
// FAULT, in round 3 where it has a round: none, raise, raise-dropped, nan, nan-dropped, config,
// behind, theta, message
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "app/exit_code.h"
#include "collective/fault_injecting.h"
#include "collective/mpi/mpi_communicator.h"
#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

constexpr uint64_t kFaultyRound = 3;  // counts from 1
constexpr uint64_t kLocalSteps = 2;
// Four calls before the first round and three in each: this one is the payloads' of round 3.
constexpr uint64_t kFaultyMessage = 4 + 3 * (kFaultyRound - 1) + 1;
// The survivors' reports are what the test reads: give even a crowded machine time to write them.
constexpr int64_t kGraceMs = 2000;

// What bad memory does, or a checkpoint of another round, between two rounds.
void Damage(std::string_view fault, const State& state) {
  State& victim = const_cast<State&>(state);
  if (fault == "behind") --victim.round;
  if (fault == "theta") {
    victim.theta[0] = std::bit_cast<float>(std::bit_cast<uint32_t>(victim.theta[0]) ^ (1u << 20));
  }
}

Job JobWith(std::string_view fault, int64_t deadline_ms, int faulty, int ranks) {
  Job job{.ranks = ranks};
  job.options.rounds = fault == "none" ? 1'000'000 : 6;
  job.options.local_steps = kLocalSteps;
  job.options.inner.learning_rate = 1e-4;
  job.options.deadline_ms = deadline_ms;
  job.options.exchange = ExchangeKind::kSparseAllGather;
  job.options.on_non_finite = fault.ends_with("-dropped") ? OnNonFinite::kDrop : OnNonFinite::kStop;
  job.options.on_trainer_error = job.options.on_non_finite;
  job.synthetic = {.tensors = SmallTensors()};
  const SyntheticFault at = {static_cast<uint32_t>(faulty), (kFaultyRound - 1) * kLocalSteps + 1};
  if (fault.starts_with("raise")) job.synthetic.errors = {at};
  if (fault.starts_with("nan")) job.synthetic.non_finite = {at};
  job.change_options = [=](int rank, Options& options) {
    if (fault == "config" && rank == faulty) options.inner.learning_rate = 2e-4;
  };
  job.observe = [=](int rank, const State& state, const RoundReport* report) {
    if (rank == faulty && state.round == kFaultyRound - 1) Damage(fault, state);
    if (rank == 0 && report != nullptr) {
      std::printf("round %d dropped %d\n", static_cast<int>(report->round),
                  report->dropped.empty() ? -1 : static_cast<int>(report->dropped.front()));
      std::fflush(stdout);
    }
    return OkStatus();
  };
  return job;
}

int Run(char** argv) {
  RealClock clock;
  auto session = MpiSession::Start(clock).value();
  auto mpi = OpenMpiCommunicator(*session, {}, Deadline::After(clock, 30'000)).value();
  const int rank = session->rank(), faulty = std::atoi(argv[3]);
  const std::string_view fault = argv[2];
  const Job job = JobWith(fault, std::strtoll(argv[1], nullptr, 10), faulty, session->size());
  CommunicatorFaultPlan plan;
  if (fault == "message" && rank == faulty) {
    plan = {
        {.operation = kFaultyMessage, .action = CommunicatorFault::Action::kFlipBit, .bit = 1999}};
  }
  std::printf("rank %d pid %d host %s\n", rank, ::getpid(), mpi->HostOf(rank).c_str());
  std::fflush(stdout);
  const auto trainer = MakeTrainerFor(job, rank);
  const Status status =
      RunOneRank(job, rank,
                 {std::make_unique<FaultInjectingCommunicator>(std::move(mpi), plan, clock),
                  nullptr, nullptr},
                 *trainer)
          .status;
  if (status.ok()) return 0;
  std::fprintf(stderr, "rank %d failed: %s\n", rank, status.ToString().c_str());
  session->Abort(static_cast<int>(ExitCodeOf(status)), kGraceMs);
}

}  // namespace
}  // namespace pulse::loco

int main(int argc, char** argv) {
  return argc == 4 ? pulse::loco::Run(argv) : 2;
}
