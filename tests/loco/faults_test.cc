// What happens when something goes wrong on one rank: every rank ends, together, and says what it
// was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/fault_injecting.h"
#include "collective/in_process.h"
#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Action = CommunicatorFault::Action;

std::string MessageOf(const Status& status) {
  return std::string(ToStd(status.message()));
}

Job SmallJob(int ranks, Mode mode = Mode::kPulseLoco) {
  Job job{.ranks = ranks};
  job.options.mode = mode;
  job.options.rounds = 4;
  job.options.local_steps = 3;
  job.options.inner.learning_rate = 1e-4;
  job.options.deadline_ms = 20'000;
  job.options.start_deadline_ms = 20'000;
  job.synthetic = {.tensors = SmallTensors()};
  return job;
}

void ExpectAllFail(const std::vector<RankResult>& results, absl::StatusCode code,
                   const testing::Matcher<const std::string&>& message) {
  for (size_t r = 0; r < results.size(); ++r) {
    EXPECT_EQ(results[r].status.code(), code) << "rank " << r << ": " << results[r].status;
    EXPECT_THAT(MessageOf(results[r].status), message) << "rank " << r;
  }
}

TEST(NonFinite, TrainerIsDroppedAndTakesItsRoundBack) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco}) {
    Job job = SmallJob(3, mode);
    job.synthetic.non_finite = {{1, 4}};  // the second of round 2's three steps
    std::vector<State> before(3);
    job.observe = [&](int rank, const State& state, const RoundReport* report) {
      const size_t r = static_cast<size_t>(rank);
      if (report == nullptr) return OkStatus();
      if (report->round == 1) before[r] = state;
      if (report->round != 2) {
        EXPECT_TRUE(report->dropped.empty());
        return OkStatus();
      }
      EXPECT_EQ(report->dropped, std::vector<uint32_t>{1});
      EXPECT_EQ(report->metrics, (Metrics{{"samples", 6}}));
      EXPECT_FALSE(report->skipped);
      if (rank != 1) {
        EXPECT_NE(state.m, before[r].m);
        EXPECT_EQ(state.step, 6u);
        return OkStatus();
      }
      EXPECT_EQ(BitsOf(state.m), BitsOf(before[r].m));
      EXPECT_EQ(BitsOf(state.v), BitsOf(before[r].v));
      EXPECT_EQ(BitsOf(state.residual), BitsOf(before[r].residual));
      EXPECT_EQ(state.step, 3u);
      return OkStatus();
    };
    const RankResult result = RunJobOrFail(job);
    EXPECT_EQ(result.reports.size(), 4u);
  }
}

// A dropped trainer counts as one that sent nothing: theta moves as if its gradients had been zero.
TEST(NonFinite, DivisorStaysTheNumberOfTrainers) {
  Job job = SmallJob(2, Mode::kDiloco);
  job.options.rounds = 1;
  job.synthetic.data = SyntheticData::kExact;
  job.options.inner = SignSteps(0x1p-10);
  job.options.outer = {.learning_rate = 1, .momentum = 0};
  job.synthetic.non_finite = {{1, 0}};
  std::vector<float> start;
  job.observe = [&start](int rank, const State& state, const RoundReport* report) {
    if (report == nullptr && rank == 0) start = state.theta;
    return OkStatus();
  };
  const RankResult result = RunJobOrFail(job);
  for (size_t i = 0; i < start.size(); ++i) {
    ASSERT_EQ(result.state.theta[i], start[i] - (start[i] - result.state.w[i]) / 2) << i;
  }
}

TEST(NonFinite, RoundWithoutContributorsIsSkipped) {
  Job job = SmallJob(2);
  job.synthetic.non_finite = {{0, 3}, {1, 5}};
  std::vector<float> theta_1;
  job.observe = [&theta_1](int rank, const State& state, const RoundReport* report) {
    if (rank != 0 || report == nullptr) return OkStatus();
    if (report->round == 1) theta_1 = state.theta;
    EXPECT_EQ(report->skipped, report->round == 2);
    if (report->round == 2) {
      EXPECT_EQ(BitsOf(state.theta), BitsOf(theta_1));
      EXPECT_EQ(report->dropped, (std::vector<uint32_t>{0, 1}));
    }
    if (report->round == 3) {
      EXPECT_NE(BitsOf(state.theta), BitsOf(theta_1));
    }
    return OkStatus();
  };
  RunJobOrFail(job);
}

TEST(NonFinite, DdpDropsTheTrainerForTheStepOnly) {
  Job job = SmallJob(2, Mode::kDdp);
  job.synthetic.non_finite = {{1, 4}};
  const RankResult result = RunJobOrFail(job);
  EXPECT_EQ(result.state.step, 12u);
  EXPECT_EQ(result.reports[1].dropped, std::vector<uint32_t>{1});
  EXPECT_EQ(result.reports[1].metrics, (Metrics{{"samples", 5}}));
  EXPECT_TRUE(result.reports[2].dropped.empty());
}

TEST(NonFinite, StopsTheRunWhereThatIsAskedFor) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(3, mode);
    job.options.on_non_finite = OnNonFinite::kStop;
    job.synthetic.non_finite = {{2, 7}};
    const auto results = RunJob(job);
    ExpectAllFail(results, absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("round 3"), HasSubstr("trainer 2"), HasSubstr("non-finite")));
    EXPECT_EQ(results[0].reports.size(), 2u);
  }
}

TEST(NonFinite, DivergedThetaStopsAllRanks) {
  Job job = SmallJob(2, Mode::kDiloco);
  job.options.inner.learning_rate = 1;
  job.options.outer.learning_rate = 1e38;
  ExpectAllFail(RunJob(job), absl::StatusCode::kInvalidArgument, HasSubstr("diverged"));
}

TEST(Stop, ComesAfterTheSameRoundOnAllRanks) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    std::atomic<bool> stop = false;
    Job job = SmallJob(4, mode);
    job.options.rounds = 1000;
    job.stop = &stop;
    job.stop_rank = 2;
    job.observe = [&stop](int rank, const State&, const RoundReport* report) {
      if (rank == 2 && report != nullptr && report->round == 2) stop = true;
      return OkStatus();
    };
    for (const RankResult& result : RunJob(job)) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.end, RunEnd::kStopped);
      EXPECT_EQ(result.state.round, 3u);
      EXPECT_FALSE(result.reports[1].stopping);
      EXPECT_TRUE(result.reports[2].stopping);
    }
  }
}

TEST(TrainerError, EndsAllRanksUnderItsName) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(3, mode);
    job.synthetic.errors = {{1, 8}};
    const auto results = RunJob(job);
    ExpectAllFail(
        results, absl::StatusCode::kUnavailable,
        AllOf(HasSubstr("round 3"), HasSubstr("trainer 1, step 8"), HasSubstr("asked for")));
    EXPECT_THAT(MessageOf(results[0].status), HasSubstr("rank 1 on localhost failed"));
    EXPECT_THAT(MessageOf(results[1].status), testing::Not(HasSubstr("rank 1")));
  }
}

TEST(ObserverError, EndsAllRanksInTheNextRound) {
  for (const uint64_t round : {0ull, 2ull, 4ull}) {
    Job job = SmallJob(3);
    job.observe = [round](int rank, const State& state, const RoundReport*) {
      return rank == 0 && state.round == round ? ResourceExhausted("bucket is full") : OkStatus();
    };
    const auto results = RunJob(job);
    ExpectAllFail(results, absl::StatusCode::kResourceExhausted, HasSubstr("bucket is full"));
    // Nobody else saw a later round, so nothing was committed past the failure.
    for (const RankResult& result : results) EXPECT_EQ(result.reports.size(), round);
  }
}

TEST(Configuration, DifferenceIsNamedWithItsRanksBeforeAnythingElse) {
  Job job = SmallJob(4);
  job.change_options = [](int rank, Options& options) {
    if (rank == 2) options.local_steps = 5;
    if (rank == 2) options.agreed["trainer.games"] = "8";
  };
  ExpectAllFail(RunJob(job), absl::StatusCode::kInvalidArgument,
                AllOf(HasSubstr("local_steps is 3 on rank 0, 1, 3 and 5 on rank 2"),
                      HasSubstr("trainer.games is missing on rank 0, 1, 3 and 8 on rank 2")));
}

TEST(Configuration, DifferentSchemaIsNamed) {
  Job job = SmallJob(2);
  job.make_trainer = [&job](int rank) -> std::unique_ptr<Trainer> {
    SyntheticOptions synthetic = job.synthetic;
    if (rank == 1) synthetic.tensors[0].name = "emb";
    return *SyntheticTrainer::Make(synthetic);
  };
  ExpectAllFail(RunJob(job), absl::StatusCode::kInvalidArgument, HasSubstr("schema is "));
}

TEST(Configuration, RefusesATensorWithoutAGate) {
  Job job = SmallJob(1);
  job.synthetic.tensors.push_back({"experts", DType::kF8E4M3, {4}});
  const auto results = RunJob(job);
  ExpectAllFail(results, absl::StatusCode::kUnimplemented,
                AllOf(HasSubstr("experts"), HasSubstr("F8_E4M3")));
}

// Puts one fault at one operation of one rank.
void InjectFault(Job& job, int rank, CommunicatorFault fault, Clock& clock) {
  job.wrap = [rank, fault, &clock](int r, std::unique_ptr<Communicator> inner) {
    std::unique_ptr<Communicator> wrapped = std::move(inner);
    if (r == rank) {
      wrapped = std::make_unique<FaultInjectingCommunicator>(std::move(wrapped),
                                                             CommunicatorFaultPlan{fault}, clock);
    }
    return wrapped;
  };
}

// Operations on the communicator before the first round: two tables, the weights, their digests.
constexpr uint64_t kStartOperations = 4;

TEST(Digest, FindsAFlippedBitOfThetaInItsRoundAndNamesTensorAndRank) {
  RealClock clock;
  Job job = SmallJob(4, Mode::kDiloco);
  // In a diloco round: table, all-to-all, all-gather of sums, digests. The second round's sums that
  // rank 2 receives start with rank 0's, whose first tensor is "embedding".
  InjectFault(job, 2,
              {.operation = kStartOperations + 4 + 2, .action = Action::kFlipBit, .bit = 30},
              clock);
  const auto results = RunJob(job);
  ExpectAllFail(results, absl::StatusCode::kDataLoss,
                AllOf(HasSubstr("round 2"), HasSubstr("\"embedding\" on rank 2;")));
  for (const RankResult& result : results) EXPECT_EQ(result.reports.size(), 1u);
}

// The last bit of a mean that is small beside its weight: theta's rounding swallows it, and without
// a look at the momentum it would come out rounds later.
TEST(Digest, FindsADifferenceThatThetaDoesNotShowYet) {
  RealClock clock;
  Job job = SmallJob(4, Mode::kDiloco);
  InjectFault(job, 2, {.operation = kStartOperations + 2, .action = Action::kFlipBit, .bit = 0},
              clock);
  ExpectAllFail(RunJob(job), absl::StatusCode::kDataLoss,
                AllOf(HasSubstr("round 1"), HasSubstr("outer momentum differs between ranks"),
                      HasSubstr("\"embedding\" on rank 2;")));
}

TEST(Digest, NamesAllRanksWhereThereIsNoMajority) {
  RealClock clock;
  Job job = SmallJob(2, Mode::kDiloco);
  InjectFault(job, 1, {.operation = kStartOperations + 2, .action = Action::kFlipBit, .bit = 30},
              clock);
  ExpectAllFail(RunJob(job), absl::StatusCode::kDataLoss,
                AllOf(HasSubstr("round 1"), HasSubstr("on rank 0, 1 (all of them")));
}

TEST(Digest, FindsAFlippedBitOfTheInitialWeights) {
  RealClock clock;
  Job job = SmallJob(3);
  InjectFault(job, 1, {.operation = 2, .action = Action::kFlipBit, .bit = 7}, clock);
  const auto results = RunJob(job);
  ExpectAllFail(results, absl::StatusCode::kDataLoss,
                AllOf(HasSubstr("start of the run"), HasSubstr("on rank 1;")));
  for (const RankResult& result : results) EXPECT_TRUE(result.reports.empty());
}

// A damaged sparse payload is refused by the codec, or makes other sums, which the digests find. A
// few bits change nothing at all: a sum's rounding swallows them, or they mean nothing to zstd.
TEST(Digest, NoBitOfASparsePayloadFlipsUnnoticed) {
  RealClock clock;
  Job job = SmallJob(3);
  job.options.rounds = 1;
  const RankResult undamaged = RunJobOrFail(job);
  size_t refused = 0, harmless = 0;
  for (uint64_t bit = 0; bit < 20'000; bit += 97) {
    InjectFault(job, 1, {.operation = kStartOperations + 1, .action = Action::kFlipBit, .bit = bit},
                clock);
    const auto results = RunJob(job);
    if (results[1].status.ok()) {
      ++harmless;
      EXPECT_EQ(BitsOf(results[1].state.theta), BitsOf(undamaged.state.theta)) << bit;
      EXPECT_EQ(BitsOf(results[1].state.outer_momentum), BitsOf(undamaged.state.outer_momentum))
          << bit;
      continue;
    }
    ++refused;
    EXPECT_EQ(results[1].status.code(), absl::StatusCode::kDataLoss) << results[1].status;
    for (const RankResult& result : results) EXPECT_FALSE(result.status.ok()) << bit;
  }
  EXPECT_GT(refused, 10 * harmless);
}

// One rank's communicator fails at operation n, for every n: all ranks end with an error, none
// waits.
TEST(Communicator, FailureAtAnyOperationEndsAllRanks) {
  RealClock clock;
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(3, mode);
    job.options.rounds = 2;
    uint64_t operations = 0;
    FaultInjectingCommunicator* counting = nullptr;
    job.wrap = [&](int rank, std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
      if (rank != 0) return inner;
      auto wrapped = std::make_unique<FaultInjectingCommunicator>(std::move(inner),
                                                                  CommunicatorFaultPlan{}, clock);
      counting = wrapped.get();
      return wrapped;
    };
    job.observe = [&](int rank, const State&, const RoundReport*) {
      if (rank == 0) operations = counting->operations();
      return OkStatus();
    };
    RunJobOrFail(job);
    ASSERT_GT(operations, kStartOperations);
    job.observe = {};
    for (uint64_t n = 0; n <= operations; ++n) {
      for (const auto when : {CommunicatorFault::When::kBefore, CommunicatorFault::When::kAfter}) {
        InjectFault(job, 1, {.operation = n, .when = when}, clock);
        const auto results = RunJob(job);
        const bool last = n == operations && when == CommunicatorFault::When::kAfter;
        for (size_t r = 0; r < results.size(); ++r) {
          // After the last table the others rightly think that all is well.
          if (last && r != 1) continue;
          EXPECT_FALSE(results[r].status.ok()) << "operation " << n << ", rank " << r;
        }
        EXPECT_THAT(MessageOf(results[1].status), HasSubstr("injected fault"));
      }
    }
  }
}

}  // namespace
}  // namespace pulse::loco
