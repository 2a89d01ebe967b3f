// One job twice, its ranks as MPI processes and as threads: the same bytes. Every process runs the
// whole job on threads and compares its own rank.
#include <gtest/gtest.h>

#include "collective/mpi/mpi_communicator.h"
#include "collective/mpi/mpi_test_main.h"
#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

class MpiJob : public testing::TestWithParam<Mode> {};

TEST_P(MpiJob, EqualsTheJobOnThreads) {
  for (const SyntheticData data : {SyntheticData::kNoise, SyntheticData::kCancelling}) {
    Job job{.ranks = MpiTestSession().size()};
    job.options.mode = GetParam();
    job.options.rounds = 5;
    job.options.local_steps = 3;
    job.options.exchange = ExchangeKind::kSparseAllGather;  // auto learns from measured times
    if (data == SyntheticData::kCancelling) job.options.inner = GradientSteps();
    job.synthetic = {.tensors = SmallTensors(), .data = data};
    job.synthetic.non_finite = {{0, 7}};  // a dropped trainer on the way
    const int rank = MpiTestSession().rank();
    const RankResult threads = std::move(RunJob(job)[static_cast<size_t>(rank)]);
    ASSERT_TRUE(threads.status.ok()) << threads.status;

    const RealClock clock;
    // Chunks much smaller than the payloads.
    auto communicator = OpenMpiCommunicator(MpiTestSession(), {.chunk_bytes = 4096},
                                            Deadline::After(clock, 50'000));
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    const auto trainer = MakeTrainerFor(job, rank);
    const RankResult processes =
        RunOneRank(job, rank, {*std::move(communicator), nullptr, nullptr}, *trainer);
    ASSERT_TRUE(processes.status.ok()) << processes.status;

    EXPECT_EQ(BitsOf(processes.state.theta), BitsOf(threads.state.theta));
    EXPECT_EQ(BitsOf(processes.state.w), BitsOf(threads.state.w));
    EXPECT_EQ(BitsOf(processes.state.m), BitsOf(threads.state.m));
    EXPECT_EQ(BitsOf(processes.state.v), BitsOf(threads.state.v));
    EXPECT_EQ(BitsOf(processes.state.residual), BitsOf(threads.state.residual));
    EXPECT_EQ(BitsOf(processes.state.outer_momentum), BitsOf(threads.state.outer_momentum));
    ASSERT_EQ(processes.reports.size(), threads.reports.size());
    for (size_t i = 0; i < threads.reports.size(); ++i) {
      EXPECT_EQ(processes.reports[i].theta, threads.reports[i].theta);
      EXPECT_EQ(processes.reports[i].entries, threads.reports[i].entries);
      EXPECT_EQ(processes.reports[i].metrics, threads.reports[i].metrics);
      EXPECT_EQ(processes.reports[i].traffic.received, threads.reports[i].traffic.received);
    }
  }
}

TEST_P(MpiJob, OfTrainersOfTwoRanksEqualsThreads) {
  const int ranks = MpiTestSession().size(), rank = MpiTestSession().rank();
  if (ranks % 2 != 0) return;  // a job of one rank has none to share
  Job job{.ranks = ranks};
  job.options.mode = GetParam();
  job.options.rounds = 3;
  job.options.local_steps = 2;
  job.options.ranks_per_trainer = job.options.micro_batches = 2;
  job.synthetic = {.tensors = SmallTensors(), .data = SyntheticData::kCancelling};
  const RankResult threads = std::move(RunJob(job)[static_cast<size_t>(rank)]);
  ASSERT_TRUE(threads.status.ok()) << threads.status;

  const RealClock clock;
  const Deadline deadline = Deadline::After(clock, 50'000);
  auto all = OpenMpiCommunicator(MpiTestSession(), {}, deadline);
  auto pair = OpenMpiGroup(MpiTestSession(), {rank / 2 * 2, rank / 2 * 2 + 1}, {}, deadline);
  std::vector<int> members;
  for (int r = rank % 2; r < ranks; r += 2) members.push_back(r);
  auto peers = OpenMpiGroup(MpiTestSession(), members, {}, deadline);
  ASSERT_TRUE(all.ok() && pair.ok() && peers.ok());
  const auto trainer = MakeTrainerFor(job, rank);
  const RankResult processes =
      RunOneRank(job, rank, {*std::move(all), *std::move(pair), *std::move(peers)}, *trainer);
  ASSERT_TRUE(processes.status.ok()) << processes.status;
  EXPECT_EQ(BitsOf(processes.state.theta), BitsOf(threads.state.theta));
  EXPECT_EQ(BitsOf(processes.state.residual), BitsOf(threads.state.residual));
  EXPECT_EQ(BitsOf(processes.state.m), BitsOf(threads.state.m));
  EXPECT_EQ(processes.reports.back().theta, threads.reports.back().theta);
}

// The word that a rank is busy comes from a thread of its own, which MPI must take.
TEST_P(MpiJob, WaitsForABusyRankBeyondItsDeadline) {
  Job job{.ranks = MpiTestSession().size()};
  job.options.mode = GetParam();
  job.options.rounds = 2;
  job.options.deadline_ms = 1500;
  job.synthetic = {.tensors = SmallTensors()};
  job.observe = [](int rank, const State& state, const RoundReport*) {
    if (rank == 0 && state.round == 1) RealClock().SleepFor(4'000'000'000);
    return OkStatus();
  };
  const int rank = MpiTestSession().rank();
  const RealClock clock;
  auto communicator = OpenMpiCommunicator(MpiTestSession(), {}, Deadline::After(clock, 50'000));
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  const auto trainer = MakeTrainerFor(job, rank);
  const RankResult result =
      RunOneRank(job, rank, {*std::move(communicator), nullptr, nullptr}, *trainer);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.reports.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Modes, MpiJob,
                         testing::Values(Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp),
                         [](const auto& at) { return std::string(NameOf(at.param)); });

}  // namespace
}  // namespace pulse::loco
