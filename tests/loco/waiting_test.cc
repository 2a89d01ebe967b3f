// How long ranks wait for each other: a rank at long work between rounds is waited for beyond the
// deadline, up to the long one, while others that fall silent are still found within it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "collective/fault_injecting.h"
#include "store/fault_injecting_filesystem.h"
#include "store/temporary_folder.h"
#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Busy machines stretch everything: what must come in time has 0.8 s, what is slow takes 2.5.
constexpr int64_t kDeadlineMs = 800, kSlowMs = 2500;

Job JobOf(Mode mode, int trainers, uint32_t shards = 1) {
  Job job{.ranks = trainers * static_cast<int>(shards)};
  job.options.mode = mode;
  job.options.rounds = 3;
  job.options.local_steps = 2;
  job.options.inner.learning_rate = 1e-4;
  job.options.ranks_per_trainer = shards;
  job.options.micro_batches = shards;
  job.options.deadline_ms = kDeadlineMs;
  job.options.start_deadline_ms = 60'000;
  job.synthetic = {.tensors = SmallTensors()};
  return job;
}

void TakeTime(int64_t milliseconds) {
  RealClock().SleepFor(milliseconds * 1'000'000);
}

// As a publisher with a slow store is: long work of rank 0 after round `round` (0: at the start).
void MakeSlow(Job& job, uint64_t round, int64_t milliseconds = kSlowMs) {
  job.observe = [=](int rank, const State& state, const RoundReport*) {
    if (rank == 0 && state.round == round) TakeTime(milliseconds);
    return OkStatus();
  };
}

// Calls `before` ahead of the initial weights (without a step) and of every gradient.
class Interrupted final : public Trainer {
 public:
  using Before = std::function<void(const LocalStep* step)>;
  Interrupted(std::unique_ptr<Trainer> inner, Before before)
      : inner_(std::move(inner)), before_(std::move(before)) {}
  const ModelSchema& schema() const override { return inner_->schema(); }
  Status InitialWeights(std::span<float> weights) override {
    before_(nullptr);
    return inner_->InitialWeights(weights);
  }
  StatusOr<Metrics> Gradient(const LocalStep& step, std::span<const float> weights,
                             std::span<const float> rollout, std::span<float> gradient) override {
    before_(&step);
    return inner_->Gradient(step, weights, rollout, gradient);
  }
  StatusOr<Metrics> Evaluate(std::span<const float> weights, uint64_t samples,
                             uint64_t seed) override {
    return inner_->Evaluate(weights, samples, seed);
  }

 private:
  std::unique_ptr<Trainer> inner_;
  Before before_;
};

TEST(SlowObserver, IsWaitedForBeyondTheDeadline) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDdp}) {
    for (const uint64_t round : {0u, 1u, 3u}) {
      SCOPED_TRACE(fmt::format("{}, round {}", NameOf(mode), round));
      Job job = JobOf(mode, 3);
      const RankResult quick = RunJobOrFail(job);
      MakeSlow(job, round);
      const RankResult slow = RunJobOrFail(job);
      EXPECT_EQ(BitsOf(slow.state.theta), BitsOf(quick.state.theta));
    }
  }
}

TEST(SlowObserver, IsWaitedForByTheRanksOfItsOwnTrainerToo) {
  for (const uint64_t round : {0u, 1u, 3u}) {
    Job job = JobOf(Mode::kPulseLoco, 2, 2);
    MakeSlow(job, round);
    RunJobOrFail(job);
  }
}

// Rank 1's disk pauses while it writes a file of the checkpoint of round `round`; by default the
// first, its part.
void RunWithAPausingDisk(uint64_t rounds, uint64_t round, const std::string& file = "") {
  const TemporaryFolder folder(TemporaryFolder::Where::kMemory);
  RealClock clock;
  const auto disk = MakePosixFilesystem();
  const auto run = [&](const std::string& name, std::vector<Fault> faults) {
    FaultInjector injector(clock, std::move(faults));
    const auto rank_1s = MakeFaultInjectingFilesystem(*disk, injector);
    Job job = JobOf(Mode::kPulseLoco, 2);
    job.options.rounds = rounds;
    job.checkpoints = {.folder = folder.path() + '/' + name, .every = 1};
    job.filesystem = [&](int rank) -> Filesystem& { return rank == 1 ? *rank_1s : *disk; };
    RunJobOrFail(job);
    return injector.Log();
  };
  // "3 fs.Rename .../round-000000000001/trainer-...: OK"
  const std::string log = run("counted", {});
  const size_t part = log.find(fmt::format("round-{:012}/{}", round, file));
  ASSERT_NE(part, std::string::npos) << log;
  Fault pause;
  pause.operation = std::strtoull(log.c_str() + log.rfind('\n', part) + 1, nullptr, 10);
  pause.action = Fault::Action::kDelay;
  pause.delay_ns = kSlowMs * 1'000'000;
  const int64_t begin_ns = clock.NowNs();
  run("paused", {pause});
  EXPECT_GT(clock.NowNs() - begin_ns, kSlowMs * 1'000'000);
}

TEST(SlowDisk, OfACheckpointIsWaitedForAtTheStart) {
  RunWithAPausingDisk(3, 0);
}
TEST(SlowDisk, OfACheckpointIsWaitedForWhenTheNextIsDue) {
  RunWithAPausingDisk(3, 1);
}
TEST(SlowDisk, OfACheckpointIsWaitedForAtTheEnd) {
  RunWithAPausingDisk(1, 1);
}

TEST(SlowDisk, OfACommitRecordIsWaitedForToo) {
  RunWithAPausingDisk(3, 1, "commit.json.tmp");
  RunWithAPausingDisk(1, 1, "commit.json.tmp");
}

// The other ranks' patience is for the busy rank alone.
TEST(SlowObserver, DoesNotHideARankThatHangs) {
  RealClock clock;
  Job job = JobOf(Mode::kPulseLoco, 3);
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  job.observe = [&](int rank, const State& state, const RoundReport*) {
    if (rank == 0 && state.round == 1) TakeTime(kSlowMs);
    return OkStatus();
  };
  // Rank 2 falls silent in its local steps, until all is over.
  job.make_trainer = [&](int rank) -> std::unique_ptr<Trainer> {
    auto inner = *SyntheticTrainer::Make(job.synthetic);
    if (rank != 2) return inner;
    return std::make_unique<Interrupted>(std::move(inner), [&](const LocalStep* step) {
      if (step == nullptr || step->round != 1) return;
      std::unique_lock lock(mutex);
      changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended; });
    });
  };
  job.finished = [&](int rank, const Status& status) {
    if (rank == 2) return;
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(ToStd(status.message())),
                AllOf(HasSubstr("round 2"), HasSubstr("no data from rank 2 (localhost)")));
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  };
  const int64_t begin_ns = clock.NowNs();
  EXPECT_FALSE(RunJob(job)[0].status.ok());
  EXPECT_LT(clock.NowNs() - begin_ns, 30'000'000'000);
}

// loco.long_deadline bounds the patience.
TEST(LongDeadline, EndsTheWaitForARankThatStaysBusy) {
  for (const uint64_t round : {0u, 1u}) {
    SCOPED_TRACE(round);
    Job job = JobOf(Mode::kPulseLoco, 2);
    job.options.start_deadline_ms = 1000;
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
    job.observe = [&](int rank, const State& state, const RoundReport*) {
      if (rank != 0 || state.round != round) return OkStatus();
      std::unique_lock lock(mutex);
      EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended; }));
      return OkStatus();
    };
    job.finished = [&](int rank, const Status& status) {
      if (rank == 0) return;
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
      EXPECT_THAT(std::string(ToStd(status.message())),
                  AllOf(HasSubstr(fmt::format("round {}", round + 1)),
                        HasSubstr("no data from rank 0 (localhost)")));
      const std::lock_guard lock(mutex);
      ended = true;
      changed.notify_all();
    };
    const auto results = RunJob(job);
    EXPECT_FALSE(results[0].status.ok());
    EXPECT_FALSE(results[1].status.ok());
  }
}

// At the start the long deadline stands for the one of the rounds: initial weights may take long.
TEST(LongDeadline, IsForInitialWeights) {
  Job job = JobOf(Mode::kPulseLoco, 2);
  job.make_trainer = [&](int) {
    return std::make_unique<Interrupted>(*SyntheticTrainer::Make(job.synthetic),
                                         [](const LocalStep* step) {
                                           if (step == nullptr) TakeTime(kSlowMs);
                                         });
  };
  RunJobOrFail(job);
  job.options.start_deadline_ms = kDeadlineMs;
  const Status status = RunJob(job)[1].status;
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(ToStd(status.message())),
              AllOf(HasSubstr("start of the run"), HasSubstr("no data from rank 0 (localhost)")));
}

}  // namespace
}  // namespace pulse::loco
