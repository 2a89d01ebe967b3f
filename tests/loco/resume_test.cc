// N rounds are N/2, a death anywhere, a resume, and N/2: the same bits in everything that lives on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/fault_injecting.h"
#include "loco/checkpoint/checkpoint_folder.h"
#include "loco/checkpoint/part_file.h"
#include "store/fault_injecting_filesystem.h"
#include "store/temporary_folder.h"
#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 2;
constexpr uint64_t kRounds = 4;

class Resume : public testing::Test {
 protected:
  Job JobIn(const std::string& folder, Mode mode = Mode::kPulseLoco) const {
    Job job{.ranks = kRanks};
    job.options.mode = mode;
    job.options.rounds = kRounds;
    job.options.local_steps = 2;
    job.options.inner.learning_rate = 1e-4;
    job.options.deadline_ms = 20'000;
    job.options.start_deadline_ms = 20'000;
    job.synthetic = {.tensors = {{"a", DType::kBF16, {23, 5}}, {"b", DType::kF32, {40}}}};
    job.synthetic.non_finite = {{1, 2}};  // a round taken back: step and round part ways
    job.checkpoints = {.folder = folder, .every = 2, .keep = 2};
    return job;
  }
  std::string Folder(const std::string& name) const { return folder_.path() + '/' + name; }

  // Digests of theta by round; the same round again must have the same.
  static void Collect(const std::vector<RankResult>& results, std::map<uint64_t, Digest>& digests) {
    for (const RoundReport& report : results[0].reports) {
      const auto [at, added] = digests.emplace(report.round, report.theta);
      EXPECT_EQ(at->second, report.theta) << "round " << report.round;
    }
  }

  static void ExpectSame(const std::vector<RankResult>& results,
                         const std::vector<RankResult>& unbroken) {
    for (size_t r = 0; r < results.size(); ++r) {
      ASSERT_TRUE(results[r].status.ok()) << "rank " << r << ": " << results[r].status;
      const State &state = results[r].state, &expected = unbroken[r].state;
      EXPECT_EQ(BitsOf(state.theta), BitsOf(expected.theta)) << "rank " << r;
      EXPECT_EQ(BitsOf(state.m), BitsOf(expected.m)) << "rank " << r;
      EXPECT_EQ(BitsOf(state.v), BitsOf(expected.v)) << "rank " << r;
      EXPECT_EQ(BitsOf(state.residual), BitsOf(expected.residual)) << "rank " << r;
      EXPECT_EQ(BitsOf(state.outer_momentum), BitsOf(expected.outer_momentum)) << "rank " << r;
      EXPECT_EQ(state.round, expected.round);
      EXPECT_EQ(state.step, expected.step);
    }
  }

  static std::vector<RankResult> Again(Job job) {
    job.checkpoints.resume = true;
    job.filesystem = {};
    job.wrap = {};
    return RunJob(job);
  }

  TemporaryFolder folder_{TemporaryFolder::Where::kMemory};
  std::unique_ptr<Filesystem> fs_ = MakePosixFilesystem();
  VirtualClock clock_;
};

TEST_F(Resume, OfAStoppedRunEndsWithTheBitsOfTheUnbrokenOne) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    const std::string name(NameOf(mode));
    const auto unbroken = RunJob(JobIn(Folder(name), mode));
    std::map<uint64_t, Digest> digests;
    Collect(unbroken, digests);
    ASSERT_EQ(digests.size(), kRounds);

    Job job = JobIn(Folder(name + "-stopped"), mode);
    std::atomic<bool> stop = false;
    job.stop = &stop;
    job.observe = [&](int rank, const State& state, const RoundReport*) {
      if (rank == 0 && state.round == 2) stop = true;
      return OkStatus();
    };
    const auto first = RunJob(job);
    ASSERT_TRUE(first[0].status.ok()) << first[0].status;
    EXPECT_EQ(first[0].reports.size(), 3u);
    Collect(first, digests);
    job.stop = nullptr;
    uint64_t resumed_at = 0;
    job.resumed = [&](int rank, const State& state, const auto& notes) {
      if (rank == 0) return;
      resumed_at = state.round;
      EXPECT_EQ(notes.at("rank"), "0");
    };
    const auto second = Again(job);
    EXPECT_EQ(resumed_at, 3u);
    Collect(second, digests);
    ExpectSame(second, unbroken);
  }
}

TEST_F(Resume, AfterADeathAtAnyFileOperationEndsWithTheSameBits) {
  const auto unbroken = RunJob(JobIn(Folder("unbroken")));
  std::map<uint64_t, Digest> digests;
  Collect(unbroken, digests);
  for (int victim = 0; victim < kRanks; ++victim) {
    int life = 0;
    const auto run = [&](FaultInjector& injector) {
      const std::string folder = Folder(fmt::format("{}-{}", victim, life++));
      const auto faulty = MakeFaultInjectingFilesystem(*fs_, injector);
      Job job = JobIn(folder);
      job.filesystem = [&](int rank) -> Filesystem& { return rank == victim ? *faulty : *fs_; };
      const auto first = RunJob(job);
      Collect(first, digests);
      const auto second = Again(job);
      Collect(second, digests);
      ExpectSame(second, unbroken);
    };
    // Silenced, not thrown out of: the writer is a thread of its own.
    const auto silence = [](Fault::When when) {
      return [when](uint64_t operation) {
        Fault fault = Fault::KillBefore(operation);
        fault.when = when;
        fault.action = Fault::Action::kSilence;
        return fault;
      };
    };
    const uint64_t operations = ForEachFault(
        clock_, {silence(Fault::When::kBefore), silence(Fault::When::kAfter), Fault::FailBefore},
        run);
    EXPECT_GT(operations, 30u);
  }
}

TEST_F(Resume, AfterADeathAtAnyMessageEndsWithTheSameBits) {
  const auto unbroken = RunJob(JobIn(Folder("unbroken")));
  std::map<uint64_t, Digest> digests;
  Collect(unbroken, digests);
  for (uint64_t operation = 0;; ++operation) {
    bool reached = false;
    for (const auto when : {CommunicatorFault::When::kBefore, CommunicatorFault::When::kAfter}) {
      Job job = JobIn(Folder(fmt::format("{}-{}", operation, static_cast<int>(when))));
      RealClock clock;
      job.wrap = [&](int rank, std::unique_ptr<Communicator> inner) {
        if (rank != 1) return inner;
        const CommunicatorFault fault{.operation = operation, .when = when};
        return std::unique_ptr<Communicator>(std::make_unique<FaultInjectingCommunicator>(
            std::move(inner), CommunicatorFaultPlan{fault}, clock));
      };
      const auto first = RunJob(job);
      reached |= !first[1].status.ok();
      Collect(first, digests);
      const auto second = Again(job);
      Collect(second, digests);
      ExpectSame(second, unbroken);
    }
    if (!reached) {
      EXPECT_GT(operation, 18u);  // a slow disk adds meetings
      break;
    }
  }
}

TEST_F(Resume, WithHostsThatShareNoFolderWorksTheSame) {
  const auto unbroken = RunJob(JobIn(Folder("unbroken")));
  Job job = JobIn(Folder("host"));
  job.checkpoints.folder.clear();
  const auto per_host = [&](int rank, CheckpointOptions& options) {
    options = {.folder = Folder(fmt::format("host-{}", rank)), .every = 2, .keep = 2};
  };
  job.change_checkpoints = per_host;
  job.options.rounds = 3;
  ASSERT_TRUE(RunJob(job)[0].status.ok());
  job.options.rounds = kRounds;
  job.change_checkpoints = [&](int rank, CheckpointOptions& options) {
    per_host(rank, options);
    options.resume = true;
  };
  ExpectSame(RunJob(job), unbroken);
}

TEST_F(Resume, KeepsTheNewestCheckpointsAlone) {
  Job job = JobIn(Folder("run"));
  job.options.rounds = 9;
  job.checkpoints.every = 1;
  job.checkpoints.keep = 3;
  ASSERT_TRUE(RunJob(job)[0].status.ok());
  CheckpointFolder folder(*fs_, Folder("run"));
  EXPECT_EQ(*folder.Rounds(), (std::vector<uint64_t>{7, 8, 9}));
  for (const uint64_t round : {7, 8, 9}) EXPECT_TRUE(folder.ReadCommit(round).ok());
}

// A part of the first checkpoint can't be removed at once.
TEST_F(Resume, KeepsTryingToRemoveOldCheckpoints) {
  const auto run = [&](const std::string& name, const std::vector<Fault>& faults) {
    FaultInjector injector(clock_, faults);
    const auto disk = MakeFaultInjectingFilesystem(*fs_, injector);
    Job job = JobIn(Folder(name));
    job.checkpoints.every = 1;
    job.checkpoints.keep = 1;
    job.filesystem = [&](int rank) -> Filesystem& { return rank == 1 ? *disk : *fs_; };
    ExpectSame(RunJob(job), RunJob(JobIn(Folder(name + "-other"))));
    return injector.Log();
  };
  const std::string log = run("counted", {});
  const size_t removed = log.find("fs.Remove " + Folder("counted/round-000000000000/trainer-00001-"
                                                        "shard-00000-of-00001.safetensors:"));
  ASSERT_NE(removed, std::string::npos) << log;
  run("failing",
      {Fault::FailBefore(std::strtoull(log.c_str() + log.rfind('\n', removed) + 1, nullptr, 10))});
  const auto left = fs_->List(Folder("failing"));
  ASSERT_TRUE(left.ok());
  EXPECT_EQ(left->size(), 1u);
}

// The second rank has nothing of a model of one chunk, and no folder but its own.
TEST_F(Resume, OfAnEmptyShardNeedsNoOtherHostsPart) {
  const auto job_of = [&](const std::string& name, uint64_t rounds) {
    Job job = JobIn(Folder(name));
    job.options.rounds = rounds;
    job.options.ranks_per_trainer = job.options.micro_batches = 2;
    job.synthetic.tensors = {{"a", DType::kBF16, {23, 5}}};
    job.change_checkpoints = [](int rank, CheckpointOptions& options) {
      options.folder += std::to_string(rank);
    };
    return job;
  };
  const auto unbroken = RunJob(job_of("unbroken", kRounds));
  EXPECT_TRUE(unbroken[1].state.theta.empty());
  ASSERT_TRUE(RunJob(job_of("half", kRounds / 2))[0].status.ok());
  Job rest = job_of("half", kRounds);
  const auto resumed = Again(rest);
  EXPECT_EQ(resumed[0].reports.size(), kRounds / 2);
  ExpectSame(resumed, unbroken);
}

// Cut over ranks in another way than this build does it.
TEST_F(Resume, ReadsPartsHoweverTheyWereCut) {
  const auto job_of = [&](const std::string& name, uint32_t shards, uint64_t rounds) {
    Job job = JobIn(Folder(name));
    job.ranks = static_cast<int>(shards);
    job.options.rounds = rounds;
    job.options.ranks_per_trainer = shards;
    job.options.micro_batches = 2;
    job.synthetic.non_finite = {};
    return job;
  };
  constexpr uint64_t kElements = 155, kCut = 32, kHalf = kRounds / 2;
  ASSERT_TRUE(RunJob(job_of("half", 2, kHalf))[0].status.ok());
  const CheckpointFolder folder(*fs_, Folder("half"));
  auto record = folder.ReadCommit(kHalf);
  ASSERT_TRUE(record.ok()) << record.status();
  State whole = State::Zero(Mode::kPulseLoco, kElements);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    ASSERT_TRUE(ReadPart(*fs_, folder.OfRound(kHalf), {0, shard, 2}, record->part(0, shard),
                         {0, kElements}, whole)
                    .ok());
  }
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const ElementRange range = shard == 0 ? ElementRange{0, kCut} : ElementRange{kCut, kElements};
    State part = State::Zero(Mode::kPulseLoco, range.length());
    for (const auto array :
         {&State::theta, &State::m, &State::v, &State::residual, &State::outer_momentum}) {
      std::copy_n((whole.*array).begin() + static_cast<ptrdiff_t>(range.begin), range.length(),
                  (part.*array).begin());
    }
    const auto seal = WritePart(*fs_, folder.OfRound(kHalf),
                                {{0, shard, 2}, range, whole.round, whole.step}, part);
    ASSERT_TRUE(seal.ok()) << seal.status();
    record->parts[shard] = *seal;
  }
  ASSERT_TRUE(folder.WriteCommit(*record, {}).ok());
  for (const uint32_t shards : {2u, 1u}) {
    const auto unbroken = RunJob(job_of(fmt::format("unbroken-{}", shards), shards, kRounds));
    const auto resumed = Again(job_of("half", shards, kRounds));
    EXPECT_EQ(resumed[0].reports.size(), shards == 2 ? kHalf : 0u);
    ExpectSame(resumed, unbroken);
  }
}

TEST_F(Resume, FallsBackToTheCheckpointBeforeADamagedOne) {
  const auto unbroken = RunJob(JobIn(Folder("unbroken")));
  Job job = JobIn(Folder("run"));
  ASSERT_TRUE(RunJob(job)[0].status.ok());
  CheckpointFolder folder(*fs_, Folder("run"));
  const std::string part = folder.OfRound(4) + '/' + PartId{1, 0, 1}.FileName();
  auto bytes = *ReadFile(*fs_, part, 1 << 20);
  bytes[bytes.size() - 3] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(*fs_, part, bytes).ok());
  uint64_t resumed_at = 99;
  job.resumed = [&](int rank, const State& state, const auto&) {
    if (rank == 1) resumed_at = state.round;
  };
  ExpectSame(Again(job), unbroken);
  EXPECT_EQ(resumed_at, 2u);
}

TEST_F(Resume, SaysSoWhenNoCheckpointIsWhole) {
  Job job = JobIn(Folder("run"));
  ASSERT_TRUE(RunJob(job)[0].status.ok());
  CheckpointFolder folder(*fs_, Folder("run"));
  const auto rounds = folder.Rounds();
  ASSERT_TRUE(rounds.ok());
  for (const uint64_t round : *rounds) {
    ASSERT_TRUE(fs_->Remove(folder.OfRound(round) + '/' + PartId{0, 0, 1}.FileName()).ok());
  }
  for (const RankResult& result : Again(job)) {
    EXPECT_TRUE(absl::IsNotFound(result.status)) << result.status;
  }
}

TEST_F(Resume, WithAnotherConfigurationIsRefusedNamingTheKey) {
  Job job = JobIn(Folder("run"));
  ASSERT_TRUE(RunJob(job)[0].status.ok());
  Job other = job;
  other.options.inner.learning_rate = 2e-4;
  for (const RankResult& result : Again(other)) {
    EXPECT_TRUE(absl::IsInvalidArgument(result.status)) << result.status;
    EXPECT_THAT(std::string(ToStd(result.status.message())),
                HasSubstr("inner.learning_rate is 0.0001 there and 0.0002 here"));
  }
  other = job;
  other.ranks = 3;
  for (const RankResult& result : Again(other)) {
    EXPECT_TRUE(absl::IsInvalidArgument(result.status)) << result.status;
    EXPECT_THAT(std::string(ToStd(result.status.message())),
                HasSubstr("is of 2 trainers; this job has 3"));
  }
  // Refusing changes nothing.
  EXPECT_TRUE(Again(job)[0].status.ok());
}

TEST_F(Resume, ContinuesAFinishedRunForMoreRounds) {
  const auto unbroken = RunJob(JobIn(Folder("unbroken")));
  Job job = JobIn(Folder("run"));
  job.options.rounds = 3;
  ASSERT_TRUE(RunJob(job)[0].status.ok());
  job.options.rounds = kRounds;
  ExpectSame(Again(job), unbroken);
  const auto nothing_left = Again(job);
  ExpectSame(nothing_left, unbroken);
  EXPECT_TRUE(nothing_left[0].reports.empty());
}

TEST_F(Resume, WithoutAnyCheckpointStartsFromTheBeginning) {
  const auto unbroken = RunJob(JobIn(Folder("unbroken")));
  ExpectSame(Again(JobIn(Folder("nothing"))), unbroken);
}

TEST_F(Resume, IsAskedForBeforeCheckpointsOfAnotherRunAreTouched) {
  Job job = JobIn(Folder("run"));
  ASSERT_TRUE(RunJob(job)[0].status.ok());
  for (const RankResult& result : RunJob(job)) {
    EXPECT_TRUE(absl::IsAlreadyExists(result.status)) << result.status;
  }
}

TEST_F(Resume, OfARunWhoseDiskIsFullTellsAllRanks) {
  Job job = JobIn(Folder("run"));
  FaultInjector injector(clock_, {Fault::Always("file.Append", ResourceExhausted("disk full"))});
  const auto faulty = MakeFaultInjectingFilesystem(*fs_, injector);
  job.filesystem = [&](int rank) -> Filesystem& { return rank == 1 ? *faulty : *fs_; };
  for (const RankResult& result : RunJob(job)) {
    EXPECT_TRUE(absl::IsResourceExhausted(result.status)) << result.status;
  }
}

}  // namespace
}  // namespace pulse::loco
