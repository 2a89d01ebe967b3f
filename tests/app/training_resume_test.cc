// A training run whose rank 0 dies at any operation on files (checkpoints, metrics, bucket,
// publisher state) and is resumed: final weights and all published versions are those of the
// unbroken run.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/parts.h"
#include "app/training.h"
#include "collective/in_process.h"
#include "store/fault_injecting_filesystem.h"
#include "store/temporary_folder.h"
#include "sync/verify.h"
#include "tests/app/in_process_groups.h"

namespace pulse {
namespace {

constexpr size_t kTrainers = 2;
constexpr uint64_t kRounds = 3;

// What is left of a run: by round, the digest of theta and that of the version.
struct Outcome {
  Bytes final_weights;
  std::map<uint64_t, std::string> theta, versions;
  std::string last_version;
};

class TrainingResume : public testing::Test {
 protected:
  StatusOr<RunConfig> ConfigIn(const std::string& folder,
                               const std::vector<std::string>& overrides = {}) const {
    return ParseConfig(fmt::format("run: {{dir: {}, seed: 3}}\n"
                                   "loco: {{rounds: {}, local_steps: 2, deadline: 20s}}\n"
                                   "adam: {{learning_rate: 1e-4}}\n"
                                   "trainer: {{kind: synthetic, elements: 700}}\n"
                                   "checkpoint: {{every: 1, keep: 1}}\n"
                                   "evaluate: {{samples: 3}}\n"
                                   "log_level: \"off\"\n",
                                   folder, kRounds),
                       "test", overrides);
  }

  // Rank 0's status.
  Status Train(const StatusOr<RunConfig>& config, Filesystem& fs_of_rank_0, bool resume) {
    const size_t ranks = kTrainers * (config.ok() ? config->loco.ranks_per_trainer : 1);
    auto group = MakeInProcessGroup(static_cast<int>(ranks));
    InProcessGroups groups;
    std::vector<Status> results(ranks);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        const std::unique_ptr<Communicator> communicator = std::move((*group)[r]);
        const std::atomic<bool> never = false;
        const Console console = {.progress = ShowProgress::kNever, .clock = &clock_};
        const auto open_group = [&](const std::vector<int>& members) {
          return groups.Open(static_cast<int>(r), members);
        };
        results[r] = RunTraining(config, {*communicator, open_group, r == 0 ? fs_of_rank_0 : *fs_,
                                          clock_, console, never, resume});
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results[0];
  }

  Outcome Read(const std::string& folder) {
    Outcome outcome;
    auto weights = ReadFile(*fs_, folder + "/final.safetensors", 1 << 20);
    EXPECT_TRUE(weights.ok()) << weights.status();
    if (weights.ok()) outcome.final_weights = *std::move(weights);
    const auto metrics = ReadFile(*fs_, folder + "/metrics.jsonl", 1 << 20);
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    std::string_view rest = metrics.ok() ? AsText(*metrics) : "";
    std::map<std::string, int> once;
    while (!rest.empty()) {
      const auto record = nlohmann::json::parse(rest.substr(0, rest.find('\n')));
      rest.remove_prefix(rest.find('\n') + 1);
      const std::string type = record["type"];
      if (type == "round") {
        EXPECT_TRUE(outcome.theta.emplace(record["round"], record["theta_digest"]).second);
      } else if (type == "version") {
        EXPECT_TRUE(outcome.versions.emplace(record["round"], record["digest"]).second);
        outcome.last_version = record["version"];
      } else if (type != "resume") {
        ++once[type == "evaluation" ? type + std::string(record["when"]) : type];
      }
    }
    EXPECT_EQ(once,
              (std::map<std::string, int>{
                  {"end", 1}, {"evaluationfinal", 1}, {"evaluationinitial", 1}, {"start", 1}}));
    return outcome;
  }

  void ExpectWholeBucket(const std::string& folder, uint64_t versions) {
    const auto store = OpenBucket(folder + "/bucket", BucketAccess::kExisting, *fs_, clock_);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto report =
        VerifyRun(**store, *kernels::ChooseKernels("auto"), {.chain = {.run = "main"}});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->problems, std::vector<std::string>());
    EXPECT_EQ(report->versions, versions);
  }

  TemporaryFolder folder_{TemporaryFolder::Where::kMemory};
  std::unique_ptr<Filesystem> fs_ = MakePosixFilesystem();
  RealClock clock_;
};

TEST_F(TrainingResume, AfterADeathAtAnyFileOperationOfRank0EndsAsTheUnbrokenRun) {
  const std::string unbroken_folder = folder_.path() + "/unbroken";
  FaultInjector counter(clock_);
  const auto counted = MakeFaultInjectingFilesystem(*fs_, counter);
  ASSERT_TRUE(Train(ConfigIn(unbroken_folder), *counted, false).ok());
  const Outcome unbroken = Read(unbroken_folder);
  ASSERT_EQ(unbroken.theta.size(), kRounds);
  ASSERT_EQ(unbroken.versions.size(), kRounds + 1);
  ASSERT_GT(counter.operations(), 100u);

  for (uint64_t operation = 0; operation < counter.operations(); ++operation) {
    SCOPED_TRACE(operation);
    const std::string folder = fmt::format("{}/{}", folder_.path(), operation);
    // Silenced, not thrown out of: checkpoints have a thread of their own. To die after an
    // operation is to die before the next.
    Fault death = Fault::KillBefore(operation);
    death.action = Fault::Action::kSilence;
    FaultInjector injector(clock_, {death});
    const auto faulty = MakeFaultInjectingFilesystem(*fs_, injector);
    const Status died = Train(ConfigIn(folder), *faulty, false);
    const Status resumed = Train(ConfigIn(folder), *fs_, true);
    ASSERT_TRUE(resumed.ok()) << resumed << " after " << died << "\n" << injector.Log();
    const Outcome outcome = Read(folder);
    EXPECT_EQ(outcome.final_weights, unbroken.final_weights);
    EXPECT_EQ(outcome.theta, unbroken.theta);
    EXPECT_EQ(outcome.versions, unbroken.versions);
    // Adopted where it was published: no version came twice.
    EXPECT_EQ(outcome.last_version.substr(outcome.last_version.find('.')),
              unbroken.last_version.substr(unbroken.last_version.find('.')));
    ExpectWholeBucket(folder, kRounds + 1);
    if (HasFailure()) break;
  }
}

// Whose shards are published, measured and written without a rank that holds them all. Versions
// that were published before the death are compared by digests of all shards. Of a model of one
// chunk, each trainer's second rank has nothing.
TEST_F(TrainingResume, OfTrainersOfTwoRanksEndsAsTheUnbrokenRunOfOneRankEach) {
  for (const char* elements : {"trainer.elements=100000", "trainer.elements=700"}) {
    SCOPED_TRACE(elements);
    const auto config_in = [&](const std::string& name, const char* ranks) {
      return ConfigIn(fmt::format("{}/{}-{}", folder_.path(), elements, name),
                      {elements, "trainer.micro_batches=2", ranks});
    };
    const char *kOne = "loco.ranks_per_trainer=1", *kTwo = "loco.ranks_per_trainer=2";
    const auto of_one = config_in("one", kOne);
    ASSERT_TRUE(Train(of_one, *fs_, false).ok());
    const Outcome one = Read(of_one->run.dir);
    FaultInjector counter(clock_);
    const auto counted = MakeFaultInjectingFilesystem(*fs_, counter);
    const Status trained = Train(config_in("two", kTwo), *counted, false);
    ASSERT_TRUE(trained.ok()) << trained;
    for (uint64_t operation = 0; operation < counter.operations(); operation += 8) {
      SCOPED_TRACE(operation);
      const auto of_two = config_in(std::to_string(operation), kTwo);
      Fault death = Fault::KillBefore(operation);
      death.action = Fault::Action::kSilence;
      FaultInjector injector(clock_, {death});
      const auto faulty = MakeFaultInjectingFilesystem(*fs_, injector);
      const Status died = Train(of_two, *faulty, false);
      const Status resumed = Train(of_two, *fs_, true);
      ASSERT_TRUE(resumed.ok()) << resumed << " after " << died << "\n" << injector.Log();
      const Outcome outcome = Read(of_two->run.dir);
      EXPECT_TRUE(outcome.final_weights == one.final_weights);
      EXPECT_EQ(outcome.theta, one.theta);
      EXPECT_EQ(outcome.versions, one.versions);
      EXPECT_EQ(outcome.last_version.substr(outcome.last_version.find('.')),
                one.last_version.substr(one.last_version.find('.')));
      ExpectWholeBucket(of_two->run.dir, kRounds + 1);
      ASSERT_FALSE(HasFailure());
    }
  }
}

// The bucket's store takes longer for an object than ranks wait for each other.
TEST_F(TrainingResume, WaitsForAStoreThatIsSlowerThanTheDeadline) {
  const auto counted_folder = folder_.path() + "/counted";
  FaultInjector counter(clock_);
  const auto counted = MakeFaultInjectingFilesystem(*fs_, counter);
  ASSERT_TRUE(Train(ConfigIn(counted_folder), *counted, false).ok());
  const std::string log = counter.Log();  // "3 fs.Rename /a to /b: OK", a line each
  std::vector<Fault> pauses;
  for (const char* version : {"/runs/main/1.1.", "/runs/main/1.2.", "/runs/main/1.4."}) {
    const size_t at = log.find(version);
    ASSERT_NE(at, std::string::npos) << log;
    Fault pause;
    pause.operation = std::strtoull(log.c_str() + log.rfind('\n', at) + 1, nullptr, 10);
    pause.action = Fault::Action::kDelay;
    pause.delay_ns = 2'500'000'000;
    pauses.push_back(pause);
  }
  const std::string folder = folder_.path() + "/slow";
  FaultInjector slow(clock_, pauses);
  const auto store = MakeFaultInjectingFilesystem(*fs_, slow);
  const Status trained = Train(ConfigIn(folder, {"loco.deadline=800ms"}), *store, false);
  ASSERT_TRUE(trained.ok()) << trained << slow.Log();
  EXPECT_EQ(Read(folder).versions, Read(counted_folder).versions);
}

TEST_F(TrainingResume, StartsANewEpochWithAnAnchorWhereTheBucketHoldsOtherWeights) {
  const std::string folder = folder_.path() + "/run";
  ASSERT_TRUE(Train(ConfigIn(folder), *fs_, false).ok());
  // The same run again from its start, with another seed, on the bucket that the first one left.
  for (const char* gone : {"/metrics.jsonl", "/final.safetensors"}) {
    ASSERT_TRUE(fs_->Remove(folder + gone).ok());
  }
  const auto other = ConfigIn(folder, {"run.seed=4", "checkpoint.folder=" + folder_.path() + "/c"});
  ASSERT_TRUE(Train(other, *fs_, true).ok());
  const Outcome outcome = Read(folder);
  EXPECT_EQ(outcome.last_version, fmt::format("2.{}", 2 * (kRounds + 1)));
  ExpectWholeBucket(folder, 2 * (kRounds + 1));
}

TEST_F(TrainingResume, OfAFinishedRunChangesNothing) {
  const std::string folder = folder_.path() + "/run";
  ASSERT_TRUE(Train(ConfigIn(folder), *fs_, false).ok());
  const Outcome before = Read(folder);
  ASSERT_TRUE(Train(ConfigIn(folder), *fs_, true).ok());
  const Outcome after = Read(folder);
  EXPECT_EQ(after.final_weights, before.final_weights);
  EXPECT_EQ(after.versions, before.versions);
  ExpectWholeBucket(folder, kRounds + 1);
}

TEST_F(TrainingResume, OfARunWithoutCheckpointsIsRefused) {
  const std::string folder = folder_.path() + "/run";
  ASSERT_TRUE(Train(ConfigIn(folder, {"checkpoint.every=0"}), *fs_, false).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Train(ConfigIn(folder), *fs_, true)));
  EXPECT_TRUE(absl::IsInvalidArgument(Train(ConfigIn(folder, {"checkpoint.every=0"}), *fs_, true)));
  EXPECT_TRUE(absl::IsAlreadyExists(Train(ConfigIn(folder), *fs_, false)));
}

TEST_F(TrainingResume, ThatCanNotStartLeavesNoRunBehind) {
  const std::string folder = folder_.path() + "/run";
  EXPECT_FALSE(Train(ConfigIn(folder, {"publish.bucket=gopher://x"}), *fs_, false).ok());
  EXPECT_TRUE(Train(ConfigIn(folder), *fs_, false).ok());
}

}  // namespace
}  // namespace pulse
