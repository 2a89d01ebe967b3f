// What happens when something goes wrong on one rank: every rank ends, together, and says what it
// was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

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

// To fail and to bring something unusable are one thing to the others.
TEST(TrainerError, DropsTheRoundWhereThatIsAskedFor) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(3, mode);
    job.synthetic.non_finite = {{1, 4}};
    const RankResult expected = RunJobOrFail(job);
    job.synthetic.non_finite = {};
    job.synthetic.errors = {{1, 4}};
    job.options.on_trainer_error = OnNonFinite::kDrop;
    const RankResult result = RunJobOrFail(job);
    EXPECT_EQ(BitsOf(result.state.theta), BitsOf(expected.state.theta));
    EXPECT_EQ(result.reports[1].dropped, std::vector<uint32_t>{1});
  }
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
    EXPECT_THAT(MessageOf(results[0].status), HasSubstr("rank 1 (localhost) failed"));
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

// Inverts a bit of an array of one rank, as bad memory would, after the first round.
void DamageAfterRoundOne(Job& job, int damaged, std::vector<float> State::*array, uint32_t bit) {
  job.observe = [=](int rank, const State& state, const RoundReport* report) {
    if (rank != damaged || report == nullptr || report->round != 1) return OkStatus();
    float& victim = (const_cast<State&>(state).*array)[0];
    victim = std::bit_cast<float>(std::bit_cast<uint32_t>(victim) ^ (1u << bit));
    return OkStatus();
  };
}

TEST(Digest, FindsAFlippedBitOfThetaInItsRoundAndNamesTensorAndRank) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(4, mode);
    DamageAfterRoundOne(job, 2, &State::theta, 20);
    const auto results = RunJob(job);
    ExpectAllFail(results, absl::StatusCode::kDataLoss,
                  AllOf(HasSubstr("round 2"), HasSubstr("\"embedding\" on rank 2 (localhost);")));
    for (const RankResult& result : results) EXPECT_EQ(result.reports.size(), 1u);
  }
}

// Of an exponent: updates are decoded by theta, which goes wrong before digests are compared.
TEST(Digest, FindsAFlippedExponentOfThetaInItsRoundAndNamesTensorAndRank) {
  for (const ExchangeKind exchange :
       {ExchangeKind::kSparseAllGather, ExchangeKind::kOwnerPartitioned}) {
    Job job = SmallJob(4, Mode::kPulseLoco);
    job.options.exchange = exchange;
    DamageAfterRoundOne(job, 2, &State::theta, 28);
    const auto results = RunJob(job);
    EXPECT_TRUE(absl::IsDataLoss(results[2].status)) << results[2].status;
    EXPECT_THAT(MessageOf(results[2].status),
                AllOf(HasSubstr("round 2"), HasSubstr("\"embedding\" on rank 2 (localhost);")));
    for (const RankResult& result : results) {
      EXPECT_FALSE(result.status.ok());
      EXPECT_EQ(result.reports.size(), 1u);
    }
  }
}

// A momentum that is small beside its weight: theta's rounding swallows the difference, and without
// a look at the momentum it would come out rounds later.
TEST(Digest, FindsADifferenceThatThetaDoesNotShowYet) {
  Job job = SmallJob(4, Mode::kDiloco);
  DamageAfterRoundOne(job, 2, &State::outer_momentum, 2);
  ExpectAllFail(RunJob(job), absl::StatusCode::kDataLoss,
                AllOf(HasSubstr("round 2"), HasSubstr("outer momentum differs between ranks"),
                      HasSubstr("\"embedding\" on rank 2 (localhost);")));
}

TEST(Digest, NamesAllRanksWhereThereIsNoMajority) {
  Job job = SmallJob(2, Mode::kDiloco);
  DamageAfterRoundOne(job, 1, &State::theta, 20);
  ExpectAllFail(RunJob(job), absl::StatusCode::kDataLoss,
                AllOf(HasSubstr("round 2"),
                      HasSubstr("on rank 0 (localhost), rank 1 (localhost) (all of them")));
}

// Operations that a job of this kind makes, all told, and before its first round.
struct Operations {
  uint64_t start = 0;
  uint64_t all = 0;
};

Operations CountOperations(Job job, Clock& clock) {
  Operations operations;
  FaultInjectingCommunicator* counting = nullptr;
  job.wrap = [&](int rank, std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
    if (rank != 0) return inner;
    auto wrapped = std::make_unique<FaultInjectingCommunicator>(std::move(inner),
                                                                CommunicatorFaultPlan{}, clock);
    counting = wrapped.get();
    return wrapped;
  };
  job.observe = [&](int rank, const State&, const RoundReport* report) {
    if (rank != 0) return OkStatus();
    operations.all = counting->operations();
    if (report == nullptr) operations.start = operations.all;
    return OkStatus();
  };
  RunJobOrFail(job);
  ++operations.all;  // the meeting at the end
  return operations;
}

// Tables, weights, payloads, sums, digests: whatever arrives damaged is refused at once, and the
// message says in which round, from whom and to whom. No rank goes on with it.
void ExpectEveryDamagedMessageIsFound(const Job& job, Clock& clock) {
  const Operations operations = CountOperations(job, clock);
  for (uint64_t n = 0; n < operations.all; ++n) {
    for (const uint64_t bit : {uint64_t{3}, uint64_t{1999}}) {
      Job damaged = job;
      InjectFault(damaged, 1, {.operation = n, .action = Action::kFlipBit, .bit = bit}, clock);
      const auto results = RunJob(damaged);
      EXPECT_EQ(results[1].status.code(), absl::StatusCode::kDataLoss) << n;
      EXPECT_THAT(MessageOf(results[1].status),
                  AllOf(HasSubstr("to rank 1 (localhost) arrived damaged"),
                        HasSubstr(n < operations.start     ? "start of the run"
                                  : n + 1 < operations.all ? "round "
                                                           : "end of the run")))
          << n;
      if (n + 1 == operations.all) continue;  // nothing follows that the others could miss
      for (const RankResult& result : results) EXPECT_FALSE(result.status.ok()) << n;
    }
  }
}

TEST(DamagedMessage, IsFoundInItsRoundWhicheverItIsAndSenderAndReceiverNamed) {
  RealClock clock;
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(3, mode);
    job.options.rounds = 2;
    ExpectEveryDamagedMessageIsFound(job, clock);
  }
}

TEST(DamagedMessage, IsFoundInEveryExchange) {
  RealClock clock;
  for (const ExchangeKind kind : kExchangeKinds) {
    Job job = SmallJob(3);
    job.options.rounds = 2;
    job.options.exchange = kind;
    job.options.sites = {0, 1, 1};
    ExpectEveryDamagedMessageIsFound(job, clock);
  }
}

// One rank's communicator fails at operation n, for every n: all ranks end with an error, none
// waits.
TEST(Communicator, FailureAtAnyOperationEndsAllRanks) {
  RealClock clock;
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    Job job = SmallJob(3, mode);
    job.options.rounds = 2;
    const uint64_t operations = CountOperations(job, clock).all - 1;
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
