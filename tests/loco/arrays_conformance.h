// One suite for every place where the loop's arrays can live: whatever a job does there, it ends
// with the bits of the same job in host memory with the reference kernels.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/loco/job.h"

namespace pulse::loco {

struct ArraysPlace {
  std::string name;
  // Called by the thread of each rank.
  std::function<MakeArrays(int rank, Trainer& trainer)> make;
  // Why the place is not here; empty: it is. Tests are then skipped, or fail where it must be here.
  std::function<std::string()> missing = [] { return std::string(); };
  bool required = false;
};

class ArraysConformance : public testing::TestWithParam<ArraysPlace> {
 protected:
  void SetUp() override {
    const std::string missing = GetParam().missing();
    if (missing.empty()) return;
    if (GetParam().required) FAIL() << missing;
    GTEST_SKIP() << missing;
  }

  static Job SmallJob(int ranks) {
    Job job;
    job.ranks = ranks;
    job.synthetic.tensors = SmallTensors();
    job.options.rounds = 3;
    job.options.local_steps = 3;
    job.options.inner.learning_rate = 1e-4;
    return job;
  }

  // Trainers of several ranks, and data on which another order of micro-batches changes bits.
  static Job SharedJob(int trainers, uint32_t shards) {
    Job job = SmallJob(trainers * static_cast<int>(shards));
    job.options.ranks_per_trainer = shards;
    job.options.micro_batches = 4;
    job.options.inner = GradientSteps();
    job.synthetic.data = SyntheticData::kCancelling;
    return job;
  }

  static std::string Describe(const Job& job) {
    return fmt::format("{} ranks, {} a trainer, {}, exchange {}, codec {}, values {}{}", job.ranks,
                       job.options.ranks_per_trainer, NameOf(job.options.mode),
                       NameOf(job.options.exchange), NameOf(job.options.codec),
                       NameOfValues(job.options.rounded_values),
                       job.options.gate_open ? ", gate open" : "");
  }

  // The job as it is in host memory, and with `ranks` of its ranks (default: all) in this place.
  static void Check(const Job& job, int ranks_here = -1) {
    SCOPED_TRACE(Describe(job));
    Job reference = job;
    reference.kernels = "reference";
    const std::vector<RankResult> expected = RunJob(reference);
    Job here = job;
    here.arrays = [&](int rank, Trainer& trainer) -> MakeArrays {
      const bool is_here = ranks_here < 0 || rank < ranks_here;
      return is_here ? GetParam().make(rank, trainer) : MakeArrays(HostArrays::Make);
    };
    const std::vector<RankResult> results = RunJob(here);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t r = 0; r < results.size(); ++r) {
      SCOPED_TRACE(testing::Message() << "rank " << r);
      ExpectSame(results[r], expected[r]);
    }
  }
};

TEST_P(ArraysConformance, EveryModeAndNumberOfTrainers) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    for (const int ranks : {1, 3}) {
      Job job = SmallJob(ranks);
      job.options.mode = mode;
      Check(job);
    }
  }
}

TEST_P(ArraysConformance, EveryExchangeCodecAndKindOfValues) {
  for (const ExchangeKind kind : {ExchangeKind::kAuto, ExchangeKind::kSparseAllGather,
                                  ExchangeKind::kOwnerPartitioned, ExchangeKind::kDense}) {
    Job job = SmallJob(3);
    job.options.exchange = kind;
    Check(job);
  }
  for (const UpdateCodecName codec : {UpdateCodecName::kFast, UpdateCodecName::kSmall}) {
    for (const std::optional<unsigned> values :
         {std::optional<unsigned>(), std::optional<unsigned>(0), std::optional<unsigned>(6)}) {
      Job job = SmallJob(2);
      job.options.exchange = ExchangeKind::kSparseAllGather;
      job.options.codec = codec;
      job.options.rounded_values = values;
      Check(job);
    }
  }
  Job open = SmallJob(2);
  open.options.gate_open = true;
  Check(open);
  Job local = SmallJob(2);
  local.options.rollout_weights = RolloutWeights::kLocal;
  Check(local);
}

TEST_P(ArraysConformance, TheOneCanonicalSumOverSites) {
  for (const SyntheticData data : {SyntheticData::kCancelling, SyntheticData::kExact}) {
    for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco}) {
      Job job = SmallJob(5);
      job.synthetic.data = data;
      job.options.mode = mode;
      job.options.inner = GradientSteps();
      job.options.sites = {0, 1, 0, 2, 1};
      if (mode == Mode::kPulseLoco) job.options.exchange = ExchangeKind::kSparseAllGather;
      Check(job);
    }
  }
}

TEST_P(ArraysConformance, ATrainerIsDroppedAndTakesItsRoundBack) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(3);
    job.options.mode = mode;
    job.options.rounds = 4;
    job.options.on_trainer_error = OnNonFinite::kDrop;
    job.synthetic.non_finite = {{.trainer = 1, .step = 4},
                                {.trainer = 0, .step = 7},
                                {.trainer = 1, .step = 7},
                                {.trainer = 2, .step = 7}};
    job.synthetic.errors = {{.trainer = 2, .step = 1}};
    Check(job);
  }
}

TEST_P(ArraysConformance, MicroBatchesAreAddedAsTheTreeOfTheHost) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDdp}) {
    for (const uint32_t micro_batches : {2u, 8u}) {
      Job job = SmallJob(2);
      job.options.mode = mode;
      job.options.micro_batches = micro_batches;
      job.options.inner = GradientSteps();
      job.synthetic.data = SyntheticData::kCancelling;
      job.synthetic.non_finite = {{.trainer = 1, .step = 4}};
      Check(job);
    }
  }
  Job failing = SmallJob(2);
  failing.options.micro_batches = 4;
  failing.options.on_trainer_error = OnNonFinite::kDrop;
  failing.synthetic.errors = {{.trainer = 0, .step = 4}};
  Check(failing);
}

TEST_P(ArraysConformance, RanksThatShareATrainerHoldAShardEach) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    for (const uint32_t shards : {2u, 4u}) {
      Job job = SharedJob(2, shards);
      job.options.mode = mode;
      Check(job);
    }
    // A tensor that is cut, where no pack and no synthetic chunk begins.
    Job cut = SharedJob(2, 2);
    cut.options.mode = mode;
    cut.options.rounds = 2;
    cut.synthetic.tensors = {{"a", DType::kBF16, {9}}, {"b", DType::kF32, {300'001}}};
    Check(cut);
    // Fewer chunks than ranks.
    Job empty = SharedJob(2, 2);
    empty.options.mode = mode;
    empty.synthetic.tensors = {{"a", DType::kF32, {9}}};
    Check(empty);
    Job mixed = SharedJob(2, 2);  // ranks of both kinds share the second trainer
    mixed.options.mode = mode;
    Check(mixed, 3);
  }
  Job sites = SharedJob(4, 2);
  sites.options.sites = {0, 1, 1, 0};
  sites.options.exchange = ExchangeKind::kSparseAllGather;
  Check(sites);
}

TEST_P(ArraysConformance, RanksThatShareATrainerAreDroppedTogether) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SharedJob(2, 4);
    job.options.mode = mode;
    job.options.rounds = 4;
    job.options.on_trainer_error = OnNonFinite::kDrop;
    job.synthetic.non_finite = {{.trainer = 1, .step = 4}};  // in the first and the last shard
    job.synthetic.errors = {{.trainer = 0, .step = 1}};
    Check(job);
    job.synthetic.errors = {{.trainer = 0, .step = 1}, {.trainer = 1, .step = 1}};
    Check(job);
    job.options.on_trainer_error = OnNonFinite::kStop;
    Check(job);
  }
  Job diverging = SharedJob(2, 2);
  diverging.options.on_non_finite = OnNonFinite::kStop;
  diverging.options.inner.learning_rate = 1e37;
  Check(diverging);
}

TEST_P(ArraysConformance, ATrainersErrorAndWeightsThatDivergeEndTheRun) {
  Job job = SmallJob(2);
  job.synthetic.errors = {{.trainer = 1, .step = 4}};
  Check(job);
  Job diverging = SmallJob(2);
  diverging.options.on_non_finite = OnNonFinite::kStop;
  diverging.options.inner.learning_rate = 1e37;
  Check(diverging);
}

// Several blocks of 2^20 elements, in segments of whole blocks, and cut inside one.
TEST_P(ArraysConformance, ArraysOfSeveralBlocksInSegments) {
  for (const bool open : {true, false}) {
    const uint64_t memory_bytes = open ? uint64_t{512} << 20 : uint64_t{1} << 20;
    Job job = SmallJob(2);
    job.options.gate_open = open;
    job.synthetic.tensors = LlmLikeTensors(2'200'000);
    job.options.rounds = open ? 1 : 2;
    job.options.local_steps = 1;
    job.options.inner.learning_rate = 3e-6;  // a few per cent of the entries
    job.options.exchange = ExchangeKind::kSparseAllGather;
    job.options.exchange_memory_bytes = memory_bytes;
    Check(job);
  }
}

TEST_P(ArraysConformance, RanksOfBothKindsInOneJob) {
  Job job = SmallJob(3);
  Check(job, 1);
  job.options.exchange = ExchangeKind::kSparseAllGather;
  Check(job, 2);
}

// A resumed run ends with the bits of the unbroken one, and may change its place in between.
TEST_P(ArraysConformance, ARunThatIsResumedHere) {
  for (const auto& [shards, first_half_here] :
       {std::pair(1u, true), std::pair(1u, false), std::pair(2u, true), std::pair(2u, false)}) {
    Job whole = shards == 1 ? SmallJob(2) : SharedJob(2, shards);
    whole.options.rounds = 6;
    const std::vector<RankResult> expected = RunJob(whole);
    const std::string folder = testing::TempDir() + "arrays_conformance_" + GetParam().name;
    std::filesystem::remove_all(folder);
    Job half = whole;
    half.checkpoints = {.folder = folder, .every = 2};
    std::atomic<bool> stop = false;
    half.stop = &stop;
    half.observe = [&](int rank, const State& state, const RoundReport*) {
      if (rank == 0 && state.round == 2) stop = true;
      return OkStatus();
    };
    if (first_half_here) half.arrays = GetParam().make;
    for (const RankResult& result : RunJob(half)) ASSERT_EQ(result.status, OkStatus());
    Job rest = whole;
    rest.checkpoints = {.folder = folder, .every = 2, .resume = true};
    rest.arrays = GetParam().make;
    const std::vector<RankResult> results = RunJob(rest);
    for (size_t r = 0; r < results.size(); ++r) {
      ASSERT_EQ(results[r].status, OkStatus());
      EXPECT_LT(results[r].reports.size(), 6u);
      EXPECT_TRUE(BitsOf(results[r].state.theta) == BitsOf(expected[r].state.theta));
      EXPECT_TRUE(BitsOf(results[r].state.residual) == BitsOf(expected[r].state.residual));
      EXPECT_TRUE(BitsOf(results[r].state.v) == BitsOf(expected[r].state.v));
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace pulse::loco
