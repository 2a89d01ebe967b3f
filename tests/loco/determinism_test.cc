// The same theta on every rank, in every run, from every kernel body; and the one order of sums.
#include <gtest/gtest.h>

#include <thread>

#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

// Gradients that cancel are exchanged as they are: any other order of a sum shows.
Job CancellingJob(int ranks, Mode mode) {
  Job job{.ranks = ranks};
  job.options.mode = mode;
  job.options.rounds = 4;
  job.options.local_steps = mode == Mode::kDdp ? 3 : 1;
  if (mode != Mode::kDdp) job.options.inner = GradientSteps();
  job.synthetic = {.tensors = SmallTensors(), .data = SyntheticData::kCancelling};
  return job;
}

class EveryMode : public testing::TestWithParam<Mode> {};

TEST_P(EveryMode, GivesEveryRankTheSameThetaOnCancellingData) {
  for (const int ranks : {2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    const RankResult result = RunJobOrFail(CancellingJob(ranks, GetParam()));
    EXPECT_EQ(result.state.round, 4u);
  }
}

TEST_P(EveryMode, GivesTheSameBytesWhateverTheThreadsDo) {
  Job job = CancellingJob(4, GetParam());
  job.options.rounds = 8;
  const auto reference = BitsOf(RunJobOrFail(job).state.theta);
  for (int delayed = 0; delayed < 4; ++delayed) {
    // One rank gives its time slice away before every round, so that it comes late.
    job.observe = [delayed](int rank, const State&, const RoundReport*) {
      if (rank == delayed) std::this_thread::yield();
      return OkStatus();
    };
    EXPECT_EQ(BitsOf(RunJobOrFail(job).state.theta), reference);
  }
}

TEST_P(EveryMode, GivesTheSameStateForOneSeedAndAnotherForTheNext) {
  Job job{.ranks = 3};
  job.options.mode = GetParam();
  job.options.rounds = 6;
  job.synthetic = {.tensors = SmallTensors(), .seed = 5};
  const auto first = RunJob(job), second = RunJob(job);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(BitsOf(first[r].state.theta), BitsOf(second[r].state.theta));
    EXPECT_EQ(BitsOf(first[r].state.residual), BitsOf(second[r].state.residual));
    EXPECT_EQ(BitsOf(first[r].state.m), BitsOf(second[r].state.m));
    EXPECT_EQ(BitsOf(first[r].state.v), BitsOf(second[r].state.v));
    EXPECT_EQ(first[r].reports.back().theta, second[r].reports.back().theta);
  }
  job.synthetic.seed = 6;
  EXPECT_NE(BitsOf(RunJobOrFail(job).state.theta), BitsOf(first[0].state.theta));
}

TEST_P(EveryMode, GivesTheSameBytesWithReferenceAndSimdKernels) {
  for (const SyntheticData data : {SyntheticData::kNoise, SyntheticData::kCancelling}) {
    Job job{.ranks = 2};
    job.options.mode = GetParam();
    job.options.rounds = 6;
    job.options.inner.weight_decay = 0.01;
    job.synthetic = {.tensors = SmallTensors(), .data = data};
    job.kernels = "reference";
    const RankResult reference = RunJobOrFail(job);
    job.kernels = "simd";
    const RankResult simd = RunJobOrFail(job);
    EXPECT_EQ(BitsOf(reference.state.theta), BitsOf(simd.state.theta));
    EXPECT_EQ(BitsOf(reference.state.residual), BitsOf(simd.state.residual));
    EXPECT_EQ(BitsOf(reference.state.m), BitsOf(simd.state.m));
    EXPECT_EQ(reference.reports.back().view_changes, simd.reports.back().view_changes);
  }
}

TEST_P(EveryMode, GivesTheSameBytesWithAnyNumberOfThreadsARank) {
  Job job{.ranks = 2};
  job.options.mode = GetParam();
  job.options.rounds = 2;
  job.options.local_steps = 2;
  // More than one block of the gate and one chunk of the digest.
  job.synthetic = {.tensors = {{"norm", DType::kF32, {70'000}}, {"a", DType::kBF16, {1'234'567}}}};
  const RankResult one = RunJobOrFail(job);
  job.options.threads = 3;
  const RankResult several = RunJobOrFail(job);
  EXPECT_EQ(BitsOf(several.state.theta), BitsOf(one.state.theta));
  EXPECT_EQ(BitsOf(several.state.residual), BitsOf(one.state.residual));
  EXPECT_EQ(BitsOf(several.state.m), BitsOf(one.state.m));
  EXPECT_EQ(BitsOf(several.state.v), BitsOf(one.state.v));
  EXPECT_EQ(several.reports.back().theta, one.reports.back().theta);
  EXPECT_EQ(several.reports.back().view_changes, one.reports.back().view_changes);
}

TEST_P(EveryMode, AddsWithinASiteFirst) {
  Job job = CancellingJob(4, GetParam());
  const auto one_site = BitsOf(RunJobOrFail(job).state.theta);
  job.options.sites = {0, 1, 0, 1};
  const auto two_sites = BitsOf(RunJobOrFail(job).state.theta);
  EXPECT_NE(one_site, two_sites);
  job.options.sites = {0, 0, 0, 0};
  EXPECT_EQ(BitsOf(RunJobOrFail(job).state.theta), one_site);
}

TEST_P(EveryMode, GivesTheSameBytesByEveryExchange) {
  for (const std::vector<uint32_t>& sites :
       {std::vector<uint32_t>{0, 0, 0}, {0, 1, 0, 1}, {0, 0, 1, 1, 2}}) {
    Job job = CancellingJob(static_cast<int>(sites.size()), GetParam());
    job.options.sites = sites;
    job.synthetic.non_finite = {{1, 2}};  // a dropped trainer on the way
    const RankResult by_default = RunJobOrFail(job);
    for (const ExchangeKind kind : kExchangeKinds) {
      for (const uint64_t memory_bytes : {uint64_t{512} << 20, uint64_t{100'000}}) {
        job.options.exchange = kind;
        job.options.exchange_memory_bytes = memory_bytes;
        const RankResult forced = RunJobOrFail(job);
        EXPECT_EQ(BitsOf(forced.state.theta), BitsOf(by_default.state.theta)) << NameOf(kind);
        EXPECT_EQ(BitsOf(forced.state.outer_momentum), BitsOf(by_default.state.outer_momentum));
        EXPECT_EQ(forced.reports.back().exchange, NameOf(kind));
        EXPECT_GT(forced.reports.back().estimate.seconds, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, EveryMode,
                         testing::Values(Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp),
                         [](const auto& at) { return std::string(NameOf(at.param)); });

TEST(Ddp, OfOneTrainerIsPlainAdamW) {
  Job job{.ranks = 1};
  job.options.mode = Mode::kDdp;
  job.options.rounds = 5;
  job.options.local_steps = 4;
  job.synthetic = {.tensors = SmallTensors()};
  const RankResult ddp = RunJobOrFail(job);

  auto trainer = SyntheticTrainer::Make(job.synthetic);
  const auto kernels = kernels::ChooseKernels("reference");
  ASSERT_TRUE(trainer.ok() && kernels.ok());
  State plain = State::Zero(Mode::kDdp, (*trainer)->schema().elements());
  std::vector<float> gradient(plain.theta.size());
  ASSERT_TRUE((*trainer)->InitialWeights(plain.theta).ok());
  for (uint64_t step = 0; step < 20; ++step) {
    ASSERT_TRUE(
        (*trainer)->Gradient({0, 1, step / 4, step}, plain.theta, plain.theta, gradient).ok());
    kernels->adamw(kernels::AdamWScalars::At(job.options.inner, step + 1), plain.theta, plain.m,
                   plain.v, gradient);
  }
  EXPECT_EQ(BitsOf(ddp.state.theta), BitsOf(plain.theta));
  EXPECT_EQ(ddp.state.step, 20u);
}

TEST(RolloutWeights, AreTheRoundsThetaOrTheTrainersOwn) {
  // Records whether the rollout weights were those that the gradient is taken at.
  class Watcher final : public Trainer {
   public:
    explicit Watcher(std::vector<bool>& own) : own_(own) {}
    const ModelSchema& schema() const override { return schema_; }
    Status InitialWeights(std::span<float>) override { return OkStatus(); }
    StatusOr<Metrics> Gradient(const LocalStep&, std::span<const float> weights,
                               std::span<const float> rollout, std::span<float> gradient) override {
      own_.push_back(std::equal(weights.begin(), weights.end(), rollout.begin()));
      gradient[0] = 1;
      return Metrics{};
    }
    StatusOr<Metrics> Evaluate(std::span<const float>, uint64_t, uint64_t) override {
      return Metrics{};
    }

   private:
    std::vector<bool>& own_;
    ModelSchema schema_ = *ModelSchema::Make({{"a", DType::kBF16, {1}}});
  };
  std::vector<bool> own;
  Job job{.ranks = 1};
  job.options.local_steps = 3;
  job.make_trainer = [&own](int) { return std::make_unique<Watcher>(own); };
  EXPECT_EQ(RunJobOrFail(job).reports[0].rollout_weights, RolloutWeights::kGlobal);
  EXPECT_EQ(own, (std::vector<bool>{true, false, false}));  // w is theta before the first step
  own.clear();
  job.options.rollout_weights = RolloutWeights::kLocal;
  EXPECT_EQ(RunJobOrFail(job).reports[0].rollout_weights, RolloutWeights::kLocal);
  EXPECT_EQ(own, (std::vector<bool>{true, true, true}));
}

}  // namespace
}  // namespace pulse::loco
