#include "tests/loco/job.h"

#include <gtest/gtest.h>

#include <bit>
#include <optional>
#include <thread>
#include <utility>

#include "collective/in_process.h"
#include "core/log.h"

namespace pulse::loco {
namespace {

class Recorder final : public RoundObserver {
 public:
  Recorder(int rank, const Job& job, RankResult& result)
      : rank_(rank), job_(job), result_(result) {}
  Status OnStart(const State& state) override {
    return job_.observe ? job_.observe(rank_, state, nullptr) : OkStatus();
  }
  Status OnResume(const State& state, const std::map<std::string, std::string>& notes) override {
    if (job_.resumed) job_.resumed(rank_, state, notes);
    return OkStatus();
  }
  std::map<std::string, std::string> CheckpointNotes() override {
    return {{"rank", std::to_string(rank_)}};
  }
  Status OnRound(const State& state, const RoundReport& report) override {
    result_.reports.push_back(report);
    return job_.observe ? job_.observe(rank_, state, &report) : OkStatus();
  }

 private:
  int rank_;
  const Job& job_;
  RankResult& result_;
};

}  // namespace

std::unique_ptr<Trainer> MakeTrainerFor(const Job& job, int rank) {
  if (job.make_trainer) return job.make_trainer(rank);
  auto trainer = SyntheticTrainer::Make(job.synthetic);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

// The communicator goes when the rank ends, so that others do not wait for one that has failed.
RankResult RunOneRank(const Job& job, int rank, RankCommunicators communicators, Trainer& trainer) {
  const std::unique_ptr<Communicator>& communicator = communicators.all;
  RankResult result;
  const RealClock clock;
  const auto logger = NullLogger();
  Options options = job.options;
  if (job.change_options) job.change_options(rank, options);
  const auto kernels = kernels::ChooseKernels(job.kernels);
  EXPECT_TRUE(kernels.ok()) << kernels.status();
  const MakeArrays make_arrays = job.arrays ? job.arrays(rank, trainer) : HostArrays::Make;
  Communicator* const peers =
      job.peers ? job.peers(rank, *communicator) : communicators.peers.get();
  auto loop = Loop::Make(options, trainer, *communicator, *kernels, clock, *logger,
                         {communicators.trainer.get(), peers}, make_arrays);
  if (!loop.ok()) {
    result.status = loop.status();
    return result;
  }
  const auto own = MakePosixFilesystem();
  std::optional<Checkpointer> checkpoints;
  CheckpointOptions checkpoint_options = job.checkpoints;
  if (job.change_checkpoints) job.change_checkpoints(rank, checkpoint_options);
  if (!checkpoint_options.folder.empty()) {
    checkpoints.emplace(
        checkpoint_options,
        PlaceOf(rank, communicator->size(), options.ranks_per_trainer, trainer.schema()),
        job.filesystem ? job.filesystem(rank) : *own, *communicator, clock, *logger);
  }
  Recorder recorder(rank, job, result);
  const std::atomic<bool> never = false;
  const auto end =
      (*loop)->Run(recorder, job.stop != nullptr && rank == job.stop_rank ? *job.stop : never,
                   checkpoints ? &*checkpoints : nullptr);
  result.status = end.status();
  if (end.ok()) result.end = *end;
  if (end.ok()) result.status = (*loop)->BringState();
  result.state = (*loop)->state();
  return result;
}

std::vector<std::unique_ptr<Communicator>> GroupOf(size_t size) {
  auto group = MakeInProcessGroup(static_cast<int>(size));
  EXPECT_TRUE(group.ok()) << group.status();
  return *std::move(group);
}

std::vector<RankCommunicators> MakeCommunicators(const Job& job) {
  const size_t ranks = static_cast<size_t>(job.ranks), shards = job.options.ranks_per_trainer;
  std::vector<RankCommunicators> communicators(ranks);
  auto all = GroupOf(ranks);
  for (size_t r = 0; r < ranks; ++r) communicators[r].all = std::move(all[r]);
  for (size_t first = 0; shards > 1 && first < ranks; first += shards) {
    auto trainer = GroupOf(shards);
    for (size_t r = 0; r < shards; ++r) communicators[first + r].trainer = std::move(trainer[r]);
  }
  for (size_t shard = 0; shards > 1 && shard < shards; ++shard) {
    auto peers = GroupOf(ranks / shards);
    for (size_t k = 0; k < peers.size(); ++k) {
      communicators[k * shards + shard].peers = std::move(peers[k]);
    }
  }
  return communicators;
}

std::vector<RankResult> RunJob(const Job& job) {
  auto communicators = MakeCommunicators(job);
  std::vector<RankResult> results(static_cast<size_t>(job.ranks));
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (int rank = 0; rank < job.ranks; ++rank) {
    trainers.push_back(MakeTrainerFor(job, rank));
    auto& communicator = communicators[static_cast<size_t>(rank)].all;
    if (job.wrap) communicator = job.wrap(rank, std::move(communicator));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.ranks; ++rank) {
    const size_t r = static_cast<size_t>(rank);
    threads.emplace_back([&job, rank, r, &communicators, &trainers, &results] {
      results[r] = RunOneRank(job, rank, std::move(communicators[r]), *trainers[r]);
      if (job.finished) job.finished(rank, results[r].status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

RankResult RunJobOrFail(const Job& job) {
  std::vector<RankResult> results = RunJob(job);
  for (size_t r = 0; r < results.size(); ++r) {
    EXPECT_TRUE(results[r].status.ok()) << "rank " << r << ": " << results[r].status;
    const State& same_shard = results[r % job.options.ranks_per_trainer].state;
    EXPECT_EQ(BitsOf(results[r].state.theta), BitsOf(same_shard.theta)) << "rank " << r;
  }
  return std::move(results[0]);
}

void ExpectSame(const RankResult& here, const RankResult& there) {
  ASSERT_EQ(here.status, there.status);
  if (!here.status.ok()) return;  // arrays are then unspecified
  EXPECT_EQ(here.end, there.end);
  EXPECT_EQ(here.state.round, there.state.round);
  EXPECT_EQ(here.state.step, there.state.step);
  EXPECT_TRUE(BitsOf(here.state.theta) == BitsOf(there.state.theta)) << "theta";
  EXPECT_TRUE(BitsOf(here.state.w) == BitsOf(there.state.w)) << "w";
  EXPECT_TRUE(BitsOf(here.state.m) == BitsOf(there.state.m)) << "m";
  EXPECT_TRUE(BitsOf(here.state.v) == BitsOf(there.state.v)) << "v";
  EXPECT_TRUE(BitsOf(here.state.residual) == BitsOf(there.state.residual)) << "residual";
  EXPECT_TRUE(BitsOf(here.state.outer_momentum) == BitsOf(there.state.outer_momentum)) << "b";
  ASSERT_EQ(here.reports.size(), there.reports.size());
  for (size_t i = 0; i < here.reports.size(); ++i) {
    const RoundReport& a = here.reports[i];
    const RoundReport& b = there.reports[i];
    EXPECT_EQ(a.theta, b.theta) << "round " << i;
    EXPECT_EQ(a.entries, b.entries) << "round " << i;
    EXPECT_EQ(a.view_changes, b.view_changes) << "round " << i;
    EXPECT_EQ(a.dropped, b.dropped) << "round " << i;
    EXPECT_EQ(a.skipped, b.skipped) << "round " << i;
    EXPECT_EQ(a.exchange, b.exchange) << "round " << i;
    EXPECT_EQ(a.traffic.sent, b.traffic.sent) << "round " << i;
    EXPECT_EQ(a.traffic.received, b.traffic.received) << "round " << i;
    EXPECT_EQ(a.traffic.contribution, b.traffic.contribution) << "round " << i;
    EXPECT_EQ(a.metrics, b.metrics) << "round " << i;
  }
}

std::vector<TensorSpec> SmallTensors() {
  return {{"embedding", DType::kBF16, {31, 40}},
          {"layer.norm", DType::kF32, {67}},
          {"layer.up", DType::kBF16, {50, 37}},
          {"layer.x", DType::kBF16, {1}},
          {"out", DType::kF32, {129}}};
}

kernels::AdamWOptions SignSteps(double learning_rate) {
  // v = g * g, so m / sqrt(v) is +-1; epsilon only keeps 0 / 0 away.
  return {.learning_rate = learning_rate, .beta1 = 0, .beta2 = 0, .epsilon = 1e-20};
}

kernels::AdamWOptions GradientSteps() {
  // lr * g / (|g| + epsilon) with lr = epsilon far above any |g|.
  return {.learning_rate = 0x1p60, .beta1 = 0, .beta2 = 0, .epsilon = 0x1p60};
}

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

}  // namespace pulse::loco
