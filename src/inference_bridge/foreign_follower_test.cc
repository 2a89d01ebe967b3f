// A follower of another system's chain: to every version, and killed and failed everywhere on the
// way. XOR is the format that forgives nothing: applied twice, or to the wrong base, it gives other
// weights.
#include "inference_bridge/foreign_follower.h"

#include <gtest/gtest.h>

#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"
#include "store/unsynced_filesystem.h"
#include "sync/foreign/testing_foreign.h"

namespace pulse {
namespace {

using testing::Bf16Schema;
using testing::Mutated;
using testing::PutForeign;
using testing::RandomModel;
using testing::TestModel;

constexpr char kOut[] = "/host/current.safetensors";
constexpr uint64_t kNewest = 3;

class ForeignFollowerTest : public ::testing::TestWithParam<std::string> {
 protected:
  ForeignFollowerTest() : choice_(*ChooseForeignFormat(GetParam())) {
    models_.push_back(RandomModel(Bf16Schema(), 1));
    for (uint64_t number = 1; number <= kNewest; ++number) {
      models_.push_back(Mutated(models_.back(), number, 100));
      const bool full = number < choice_.format->first_number() + 1;
      EXPECT_EQ(PutForeign(*store_, choice_, "", full ? nullptr : &models_[number - 1],
                           models_[number], number),
                OkStatus());
    }
  }

  std::unique_ptr<UnsyncedFilesystem> Machine() {
    auto fs = std::make_unique<UnsyncedFilesystem>(clock_);
    EXPECT_TRUE(fs->CreateDirectories("/host").ok());
    EXPECT_TRUE(WriteCheckpoint(*fs, "/host/base", ModelViewSource(models_[0].view()), {}).ok());
    return fs;
  }

  StatusOr<std::unique_ptr<ForeignFollower>> Open(Store& store, Filesystem& fs) {
    ForeignFollowerOptions options;
    options.format = choice_.format;
    options.base = "/host/base";
    options.output = kOut;
    return ForeignFollower::Open(options, {store, fs, clock_, *log_});
  }

  Status StepTo(uint64_t number, Filesystem& fs) {
    PULSE_ASSIGN_OR_RETURN(const auto follower, Open(*store_, fs));
    return follower->Step(FollowTarget::Number(number)).status();
  }

  // The number of the version at the output, 0 if there is none; a mixture fails the test.
  uint64_t VersionAtOutput(Filesystem& fs) {
    const auto checkpoint = Checkpoint::Open(fs, kOut);
    if (absl::IsNotFound(checkpoint.status())) return 0;
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    for (uint64_t number = 1; checkpoint.ok() && number <= kNewest; ++number) {
      if (ViewDigest((*checkpoint)->view()) == ViewDigest(models_[number].view())) return number;
    }
    ADD_FAILURE() << "no version is in place";
    return 0;
  }

  void KillEverywhere(uint64_t start, bool lose_unsynced) {
    const uint64_t operations =
        ForEachFault(clock_, {Fault::KillBefore, Fault::KillAfter}, [&](FaultInjector& injector) {
          const auto machine = Machine();
          if (start > 0) {
            ASSERT_EQ(StepTo(start, *machine), OkStatus());
          }
          const auto fs = MakeFaultInjectingFilesystem(*machine, injector);
          const auto store = MakeFaultInjectingStore(*store_, injector);
          injector.Survives([&] {
            const auto follower = Open(*store, *fs);
            if (follower.ok()) (*follower)->Step().IgnoreError();
          });
          if (lose_unsynced) machine->Crash();
          EXPECT_GE(VersionAtOutput(*machine), start) << injector.Log();
          EXPECT_EQ(StepTo(kNewest, *machine), OkStatus()) << injector.Log();
          EXPECT_EQ(VersionAtOutput(*machine), kNewest) << injector.Log();
        });
    EXPECT_GT(operations, 20u);
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  ForeignChoice choice_;
  std::vector<TestModel> models_;  // by number; 0 is the base
  std::shared_ptr<Logger> log_ = *MakeLogger("off", "");
};

TEST_P(ForeignFollowerTest, TakesEachVersionInTurn) {
  const auto machine = Machine();
  const auto follower = *Open(*store_, *machine);
  for (uint64_t number = 1; number <= kNewest; ++number) {
    const auto result = follower->Step(FollowTarget::Next());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->version.id.number, number);
    EXPECT_EQ(result->newest, kNewest);
    EXPECT_EQ(VersionAtOutput(*machine), number);
  }
  const auto again = follower->Step();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->changed);
}

TEST_P(ForeignFollowerTest, KilledAnywhereItLeavesAWholeVersionAndComesBack) {
  KillEverywhere(0, /*lose_unsynced=*/false);
  KillEverywhere(1, /*lose_unsynced=*/false);
}

TEST_P(ForeignFollowerTest, PowerLostAnywhereItLeavesAWholeVersionAndComesBack) {
  KillEverywhere(0, /*lose_unsynced=*/true);
  KillEverywhere(1, /*lose_unsynced=*/true);
}

TEST_P(ForeignFollowerTest, AfterAnyFailedOperationTheNextStepSucceeds) {
  ForEachFault(clock_, {Fault::FailBefore, Fault::LoseAnswer}, [&](FaultInjector& injector) {
    const auto machine = Machine();
    ASSERT_EQ(StepTo(1, *machine), OkStatus());
    const auto fs = MakeFaultInjectingFilesystem(*machine, injector);
    const auto store = MakeFaultInjectingStore(*store_, injector);
    auto follower = Open(*store, *fs);
    if (!follower.ok()) follower = Open(*store, *fs);
    ASSERT_TRUE(follower.ok()) << follower.status() << "\n" << injector.Log();
    const auto first = (*follower)->Step();
    EXPECT_GE(VersionAtOutput(*machine), 1u) << injector.Log();
    if (!first.ok()) {
      const auto second = (*follower)->Step();
      EXPECT_TRUE(second.ok()) << second.status() << "\n" << injector.Log();
    }
    EXPECT_EQ(VersionAtOutput(*machine), kNewest) << injector.Log();
  });
}

TEST_P(ForeignFollowerTest, NeverGoesBack) {
  const auto machine = Machine();
  ASSERT_EQ(StepTo(2, *machine), OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(StepTo(1, *machine)));
  EXPECT_EQ(VersionAtOutput(*machine), 2u);
  EXPECT_TRUE(absl::IsNotFound(StepTo(9, *machine)));
}

INSTANTIATE_TEST_SUITE_P(All, ForeignFollowerTest,
                         ::testing::Values("hf-delta-dir:xor", "hf-delta-dir:overwrite", "trl-v3"),
                         [](const auto& about) {
                           std::string name = about.param;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace pulse
