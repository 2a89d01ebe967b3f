// A follower killed before and after every operation on its bucket and on its file system, with
// what was not synced lost.
#include <gtest/gtest.h>

#include "inference_bridge/follow_test_world.h"
#include "inference_bridge/follower.h"
#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"

namespace pulse {
namespace {

constexpr char kOut[] = "/host/current.safetensors";

// How the machine goes down.
enum class Crash { kProcessOnly, kAllUnsyncedLost, kSomeUnsyncedLost };

struct CrashCase {
  const char* name;
  OutputLayout layout;
  Crash crash;
  uint64_t memory_bytes;
};

class FollowerCrashTest : public ::testing::TestWithParam<CrashCase> {
 protected:
  FollowerCrashTest() {
    for (int i = 0; i < 4; ++i) publisher_.Publish(i == 2);
  }

  FollowerOptions Options(const TestMachine& machine) {
    FollowerOptions options = machine.Options();
    options.layout = GetParam().layout;
    options.memory_bytes = GetParam().memory_bytes;
    return options;
  }

  // Kills a life that goes to the newest version, everywhere. start: the version in place before, 0
  // for none.
  void KillEverywhere(uint64_t start) {
    const uint64_t operations =
        ForEachFault(clock_, {Fault::KillBefore, Fault::KillAfter}, [&](FaultInjector& injector) {
          TestMachine machine(clock_);
          if (start != 0) {
            ASSERT_TRUE(
                (*machine.Open(*store_, Options(machine)))->Step(FollowTarget::Number(start)).ok());
          }
          const auto fs = MakeFaultInjectingFilesystem(machine.fs, injector);
          const auto store = MakeFaultInjectingStore(*store_, injector);
          const bool ended = injector.Survives([&] {
            auto follower = machine.Open(*store, *fs, Options(machine));
            ASSERT_TRUE(follower.ok()) << follower.status();
            const auto result = (*follower)->Step();
            ASSERT_TRUE(result.ok()) << result.status();
          });
          EXPECT_EQ(ended, injector.Plan().empty());
          GoDown(machine);
          const uint64_t found = VersionAt(machine.fs, kOut, publisher_);
          EXPECT_TRUE(found == start || found == 4) << found << "\n" << injector.Log();
          EXPECT_TRUE(!ended || found == 4) << found;
          Restart(machine, injector);
        });
    EXPECT_GT(operations, 30u);
  }

  void GoDown(TestMachine& machine) {
    if (GetParam().crash == Crash::kAllUnsyncedLost) machine.fs.Crash();
    if (GetParam().crash == Crash::kSomeUnsyncedLost) machine.fs.CrashKeepingSome(++seed_);
  }

  void Restart(TestMachine& machine, const FaultInjector& injector) {
    const auto follower = machine.Open(*store_, Options(machine));
    ASSERT_TRUE(follower.ok()) << follower.status() << "\n" << injector.Log();
    const auto result = (*follower)->Step();
    ASSERT_TRUE(result.ok()) << result.status() << "\n" << injector.Log();
    EXPECT_EQ(VersionAt(machine.fs, kOut, publisher_), 4u) << injector.Log();
    for (const std::string& name : NamesIn(machine.fs, "/host")) {
      EXPECT_TRUE(name == "current.safetensors" || name == "current.safetensors.lock" ||
                  name == "current.safetensors.state" || name == "current.safetensors.versions")
          << name << " was left behind\n"
          << injector.Log();
    }
    if (GetParam().layout == OutputLayout::kFolder) {
      EXPECT_EQ(NamesIn(machine.fs, std::string(kOut)).size(), 1u);
      EXPECT_LE(NamesIn(machine.fs, std::string(kOut) + ".versions").size(), 2u);
    }
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  TestPublisher publisher_{*store_, clock_};
  uint64_t seed_ = 0;
};

TEST_P(FollowerCrashTest, TheFirstVersionIsThereWholeOrNotAtAll) {
  KillEverywhere(0);
}

TEST_P(FollowerCrashTest, OverAChainTheOldVersionOrTheNewOneIsInPlace) {
  KillEverywhere(3);
}

TEST_P(FollowerCrashTest, FarBehindTheOldVersionOrTheNewOneIsInPlace) {
  KillEverywhere(1);
}

// Killed, and killed again while it recovers: one in eleven pairs of operations. In every second of
// them the machine goes down with the second life only.
TEST_P(FollowerCrashTest, KilledTwiceItStillComesBack) {
  const auto live = [&](TestMachine& machine, FaultInjector& injector) {
    const auto fs = MakeFaultInjectingFilesystem(machine.fs, injector);
    const auto store = MakeFaultInjectingStore(*store_, injector);
    injector.Survives([&] {
      auto follower = machine.Open(*store, *fs, Options(machine));
      if (follower.ok()) (*follower)->Step().IgnoreError();
    });
  };
  const auto machine_at_1 = [&] {
    auto machine = std::make_unique<TestMachine>(clock_);
    EXPECT_TRUE((*machine->Open(*store_, Options(*machine)))->Step(FollowTarget::Number(1)).ok());
    return machine;
  };
  const uint64_t operations =
      CountOperations(clock_, [&](FaultInjector& injector) { live(*machine_at_1(), injector); });
  for (uint64_t pair = 0; pair < operations * operations; pair += 11) {
    const auto machine = machine_at_1();
    FaultInjector first(clock_, {Fault::KillAfter(pair / operations)});
    FaultInjector second(clock_, {Fault::KillAfter(pair % operations)});
    for (FaultInjector* injector : {&first, &second}) {
      live(*machine, *injector);
      if (injector == &second || pair % 2 == 0) GoDown(*machine);
      const uint64_t found = VersionAt(machine->fs, kOut, publisher_);
      EXPECT_TRUE(found == 1 || found == 4) << found << "\n" << injector->Log();
    }
    Restart(*machine, second);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Machine, FollowerCrashTest,
    ::testing::Values(
        CrashCase{"FileProcessKilled", OutputLayout::kFile, Crash::kProcessOnly, 0},
        CrashCase{"FileUnsyncedLost", OutputLayout::kFile, Crash::kAllUnsyncedLost, 0},
        CrashCase{"FileSomeUnsyncedLost", OutputLayout::kFile, Crash::kSomeUnsyncedLost, 1 << 30},
        CrashCase{"FolderProcessKilled", OutputLayout::kFolder, Crash::kProcessOnly, 1 << 30},
        CrashCase{"FolderUnsyncedLost", OutputLayout::kFolder, Crash::kAllUnsyncedLost, 0},
        CrashCase{"FolderSomeUnsyncedLost", OutputLayout::kFolder, Crash::kSomeUnsyncedLost, 0}),
    [](const auto& about) { return about.param.name; });

}  // namespace
}  // namespace pulse
