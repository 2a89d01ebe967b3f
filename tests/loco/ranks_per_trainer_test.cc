// Trainers of several ranks compute what trainers of one rank do, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "store/temporary_folder.h"
#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

using testing::HasSubstr;

// Whole arrays of one trainer, put together from its ranks' shards.
struct Whole {
  std::vector<uint32_t> theta, m, v, residual, momentum;
  friend bool operator==(const Whole&, const Whole&) = default;
};

Whole WholeOf(const std::vector<RankResult>& results, uint32_t shards, size_t trainer) {
  Whole whole;
  const auto append = [](const std::vector<float>& from, std::vector<uint32_t>& to) {
    const auto bits = BitsOf(from);
    to.insert(to.end(), bits.begin(), bits.end());
  };
  for (uint32_t shard = 0; shard < shards; ++shard) {
    const State& state = results[trainer * shards + shard].state;
    append(state.theta, whole.theta);
    append(state.m, whole.m);
    append(state.v, whole.v);
    append(state.residual, whole.residual);
    append(state.outer_momentum, whole.momentum);
  }
  return whole;
}

Job JobOf(int trainers, uint32_t shards, Mode mode, SyntheticData data) {
  Job job{.ranks = trainers * static_cast<int>(shards)};
  job.options.mode = mode;
  job.options.rounds = 3;
  job.options.local_steps = 2;
  job.options.inner = {.learning_rate = 1e-3, .weight_decay = 0.01};
  job.options.ranks_per_trainer = shards;
  job.options.micro_batches = 4;
  job.options.deadline_ms = 20'000;
  job.synthetic = {.tensors = SmallTensors(), .seed = 9, .data = data};
  return job;
}

void ExpectOk(const std::vector<RankResult>& results) {
  for (size_t r = 0; r < results.size(); ++r) {
    ASSERT_TRUE(results[r].status.ok()) << "rank " << r << ": " << results[r].status;
  }
}

void ExpectSame(const std::vector<RankResult>& some, uint32_t some_shards,
                const std::vector<RankResult>& others, uint32_t other_shards, size_t trainers) {
  for (size_t k = 0; k < trainers; ++k) {
    EXPECT_EQ(WholeOf(some, some_shards, k), WholeOf(others, other_shards, k)) << "trainer " << k;
    EXPECT_EQ(some[k * some_shards].state.step, others[k * other_shards].state.step);
  }
}

class RanksPerTrainer : public testing::TestWithParam<Mode> {};

TEST_P(RanksPerTrainer, ChangeNoBitOfAnything) {
  for (const int trainers : {1, 2, 3}) {
    for (const SyntheticData data : {SyntheticData::kNoise, SyntheticData::kCancelling}) {
      const auto one = RunJob(JobOf(trainers, 1, GetParam(), data));
      ExpectOk(one);
      for (const uint32_t shards : {2u, 4u})
        for (const bool ranges : {false, true}) {
          SCOPED_TRACE(fmt::format("{} trainers of {} ranks", trainers, shards));
          Job job = JobOf(trainers, shards, GetParam(), data);
          job.synthetic.computes_ranges = ranges;
          const auto several = RunJob(job);
          ExpectOk(several);
          ExpectSame(several, shards, one, 1, static_cast<size_t>(trainers));
          for (size_t i = 0; i < one[0].reports.size(); ++i) {
            const RoundReport &a = one[0].reports[i], &b = several[0].reports[i];
            EXPECT_EQ(a.theta, b.theta);
            EXPECT_EQ(a.view_changes, b.view_changes);
            EXPECT_EQ(a.entries, b.entries);
            EXPECT_EQ(a.gate_density, b.gate_density);
            EXPECT_EQ(a.metrics, b.metrics);
          }
        }
    }
  }
}

// A tensor that is cut between them, and a whole digest that two ranks make up.
TEST_P(RanksPerTrainer, HoldAShardOfThetaAndNoMore) {
  const auto job_of = [&](uint32_t shards, bool ranges) {
    Job job = JobOf(2, shards, GetParam(), SyntheticData::kNoise);
    job.options.micro_batches = 2;
    job.synthetic.tensors = {{"a", DType::kF32, {9}}, {"b", DType::kBF16, {700'001}}};
    job.synthetic.computes_ranges = ranges;
    return job;
  };
  const auto one = RunJob(job_of(1, true));
  ExpectOk(one);
  for (const bool ranges : {false, true}) {
    const auto two = RunJob(job_of(2, ranges));
    ExpectOk(two);
    ExpectSame(two, 2, one, 1, 2);
    EXPECT_EQ(two[0].state.theta.size(), 9u + (1 << 19));
    EXPECT_EQ(two[1].state.theta.size(), 700'001u - (1 << 19));
    EXPECT_EQ(two[1].reports.back().theta, one[0].reports.back().theta);
  }
}

TEST_P(RanksPerTrainer, OfTwoSitesFoldInTheSameOrder) {
  Job job = JobOf(4, 1, GetParam(), SyntheticData::kCancelling);
  job.options.sites = {0, 1, 1, 0};
  const auto one = RunJob(job);
  job = JobOf(4, 2, GetParam(), SyntheticData::kCancelling);
  job.options.sites = {0, 1, 1, 0};
  const auto several = RunJob(job);
  ExpectOk(several);
  ExpectSame(several, 2, one, 1, 4);
}

TEST_P(RanksPerTrainer, DropANonFiniteTrainerAlike) {
  Job job = JobOf(2, 1, GetParam(), SyntheticData::kNoise);
  job.synthetic.non_finite = {{1, 3}};
  const auto one = RunJob(job);
  for (const bool ranges : {false, true}) {
    job = JobOf(2, 2, GetParam(), SyntheticData::kNoise);
    job.synthetic.non_finite = {{1, 3}};
    job.synthetic.computes_ranges = ranges;
    const auto several = RunJob(job);
    ExpectOk(several);
    ExpectSame(several, 2, one, 1, 2);
    EXPECT_EQ(several[3].reports[1].dropped, std::vector<uint32_t>{1});
  }
}

TEST_P(RanksPerTrainer, FailTogetherWhereOneOfThemFails) {
  Job job = JobOf(2, 2, GetParam(), SyntheticData::kNoise);
  job.synthetic.errors = {{1, 3}};  // in the last micro-batch, which is rank 3's
  job.synthetic.computes_ranges = false;
  for (const RankResult& result : RunJob(job)) {
    EXPECT_TRUE(absl::IsUnavailable(result.status)) << result.status;
    EXPECT_THAT(std::string(ToStd(result.status.message())),
                HasSubstr("error asked for at step 3"));
  }
}

TEST_P(RanksPerTrainer, MayBeOthersWhenARunIsResumed) {
  const TemporaryFolder folder(TemporaryFolder::Where::kMemory);
  const auto unbroken = RunJob(JobOf(2, 1, GetParam(), SyntheticData::kNoise));
  int run = 0;
  for (const uint32_t before : {1u, 2u, 4u}) {
    for (const uint32_t after : {1u, 2u, 4u}) {
      SCOPED_TRACE(fmt::format("from {} to {}", before, after));
      Job job = JobOf(2, before, GetParam(), SyntheticData::kNoise);
      job.checkpoints = {.folder = fmt::format("{}/{}", folder.path(), run++)};
      job.options.rounds = 2;
      ExpectOk(RunJob(job));
      Job rest = JobOf(2, after, GetParam(), SyntheticData::kNoise);
      rest.checkpoints = job.checkpoints;
      rest.checkpoints.resume = true;
      const auto resumed = RunJob(rest);
      ExpectOk(resumed);
      EXPECT_EQ(resumed[0].reports.size(), 1u);
      ExpectSame(resumed, after, unbroken, 1, 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, RanksPerTrainer,
                         testing::Values(Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp),
                         [](const auto& at) { return std::string(NameOf(at.param)); });

TEST(RanksPerTrainer, ThatDoNotDivideTheRanksAreRefused) {
  Job job = JobOf(1, 2, Mode::kPulseLoco, SyntheticData::kNoise);
  job.options.micro_batches = 1;
  for (const RankResult& result : RunJob(job)) {
    EXPECT_TRUE(absl::IsInvalidArgument(result.status)) << result.status;
  }
}

// A wrong bit in a shard of what must be equal is found and its rank named.
TEST(RanksPerTrainer, AreNamedWhenTheirShardDiffers) {
  Job job = JobOf(3, 2, Mode::kPulseLoco, SyntheticData::kNoise);
  // A low bit, in memory: where theta has another exponent, updates can't even be decoded.
  for (std::vector<float> State::*array : {&State::outer_momentum, &State::theta}) {
    job.observe = [array](int rank, const State& state, const RoundReport* report) {
      if (rank == 3 && report != nullptr && report->round == 1) {
        float& value = (const_cast<State&>(state).*array)[5];
        value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 4);
      }
      return OkStatus();
    };
    for (const RankResult& result : RunJob(job)) {
      EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
      EXPECT_THAT(std::string(ToStd(result.status.message())), HasSubstr(" on rank 3"));
    }
  }
}

}  // namespace
}  // namespace pulse::loco
