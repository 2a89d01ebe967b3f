// The publisher's life ends, or one of its operations fails, before and after every single
// operation on the file system and the store. Afterwards the head names a complete version, a
// restart continues the chain, verify is clean, and gc removes the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"
#include "store/file_store.h"
#include "store/forwarding_store.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"
#include "sync/publisher.h"
#include "sync/retention.h"
#include "sync/testing.h"
#include "sync/testing_follow.h"
#include "sync/verify.h"

namespace pulse {
namespace {

using testing::CountingNonces;
using testing::Follower;
using ::testing::IsEmpty;
using testing::Mutated;
using testing::RandomModel;
using testing::SameBits;
using testing::TestKernels;
using testing::TestModel;
using testing::TinySchema;

const ChainOptions kChain = {.fetch_threads = 1};

// Where the bucket lies.
enum class Bucket {
  kSameMachine,  // a folder of the file system that holds the state: loses unsynced writes with it
  kElsewhere,    // survives whatever happens to the publisher's machine
};

// What happens to the publisher's machine after a kill.
enum class Machine { kLives, kLosesPower, kLosesPowerButKeepsSome };

struct Scenario {
  const char* name;
  Bucket bucket;
  std::string state;  // folder; empty: none
  Machine machine;
  friend void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }
};

constexpr int64_t kSecond = 1'000'000'000;

// A fresh world with versions 1 and 2 in it.
class World {
 public:
  explicit World(const Scenario& scenario) : scenario_(scenario) {
    models_.emplace_back();  // versions count from 1
    models_.push_back(RandomModel(TinySchema(), 1));
    for (uint64_t i = 2; i <= 6; ++i) models_.push_back(Mutated(models_.back(), i, 60));
    if (scenario.bucket == Bucket::kSameMachine) {
      EXPECT_TRUE(machine_.CreateDirectories("/bucket").ok());
    }
    auto store = OpenStore(machine_);
    auto publisher = OpenPublisher(*store, machine_);
    EXPECT_TRUE(publisher.ok()) << publisher.status();
    for (uint64_t number = 1; number <= 2; ++number) {
      EXPECT_TRUE((*publisher)->Publish(models_[number].view(), {}).ok());
    }
  }

  // The store as a process on this machine sees it.
  std::unique_ptr<Store> OpenStore(Filesystem& fs) {
    if (scenario_.bucket == Bucket::kElsewhere) return std::make_unique<Borrowed>(*far_store_);
    auto store = OpenFileStore({.root = "/bucket"}, fs, clock_);
    return store.ok() ? *std::move(store) : nullptr;
  }

  StatusOr<std::unique_ptr<Publisher>> OpenPublisher(Store& store, Filesystem& fs) {
    const PublisherDeps deps{store, fs, clock_, nonces_, TestKernels(), *log_};
    return Publisher::Open({.state_directory = scenario_.state, .anchor_share = 100}, deps);
  }

  // Time passes until the next process starts.
  void AfterKill(uint64_t seed) {
    clock_.SleepFor(kSecond);
    if (scenario_.machine == Machine::kLosesPower) machine_.Crash();
    if (scenario_.machine == Machine::kLosesPowerButKeepsSome) machine_.CrashKeepingSome(seed);
  }

  // Returns the head's number, which must be among the allowed ones.
  uint64_t CheckSound(Store& store, uint64_t least, uint64_t most) {
    const auto report = VerifyRun(store, TestKernels(), {.chain = kChain, .progress = {}});
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->problems, IsEmpty());
    const auto head = ReadHead(store, "main");
    EXPECT_TRUE(head.ok()) << head.status();
    const uint64_t number = head->head.version->id.number;
    EXPECT_GE(number, least);
    EXPECT_LE(number, most);
    Follower follower;
    EXPECT_TRUE(follower.Follow(store, kChain).ok());
    EXPECT_TRUE(SameBits(follower.model, models_[number]));
    return number;
  }

  // A new process on the machine publishes the next version, and then tidies up.
  void Continue(uint64_t number) {
    clock_.SleepFor(kSecond);
    auto store = OpenStore(machine_);
    {
      Borrowed counting(*store);
      auto publisher = OpenPublisher(counting, machine_);
      ASSERT_TRUE(publisher.ok()) << publisher.status();
      // With a state folder the base is there, whatever happened: nothing is fetched to rebuild it.
      EXPECT_EQ(counting.reads() == 0, !scenario_.state.empty());
      const auto published = (*publisher)->Publish(models_[number + 1].view(), {});
      ASSERT_TRUE(published.ok()) << published.status();
      EXPECT_EQ(published->ref.id.number, number + 1);
      EXPECT_TRUE(published->manifest.has(PayloadRole::kDelta)) << "the chain was broken off";
      CheckStateFolder(published->ref.id);
    }
    CheckSound(*store, number + 1, number + 1);
    const auto plan = PlanGc(*store, clock_, {.chain = kChain, .min_age_ms = 0});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(plan->spared, IsEmpty());
    EXPECT_THAT(ExecuteGc(*store, *plan).errors, IsEmpty());
    const auto report = VerifyRun(*store, TestKernels(), {.chain = kChain, .progress = {}});
    EXPECT_THAT(report->problems, IsEmpty());
    EXPECT_THAT(report->orphans, IsEmpty());
    EXPECT_EQ(report->versions, number + 1);
  }

  const TestModel& model(uint64_t number) const { return models_[number]; }
  VirtualClock& clock() { return clock_; }
  UnsyncedFilesystem& machine() { return machine_; }

 private:
  // A store that somebody else owns.
  class Borrowed final : public ForwardingStore {
   public:
    using ForwardingStore::ForwardingStore;
    Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
      ++reads_;
      return inner_.ReadAt(key, offset, out);
    }
    uint64_t reads() const { return reads_; }

   private:
    uint64_t reads_ = 0;
  };

  void CheckStateFolder(const VersionId& id) {
    if (scenario_.state.empty()) return;
    std::vector<std::string> names;
    const auto entries = machine_.List(scenario_.state);
    ASSERT_TRUE(entries.ok());
    for (const DirectoryEntry& entry : *entries) {
      names.push_back(entry.name);
    }
    EXPECT_THAT(names,
                ::testing::ElementsAre("LOCK", fmt::format("base-{}.safetensors", id.Folder()),
                                       "publisher.json"));
  }

  const Scenario& scenario_;
  VirtualClock clock_;
  UnsyncedFilesystem machine_{clock_};
  std::unique_ptr<Store> far_store_ = MakeMemoryStore(clock_);
  CountingNonces nonces_{1};
  std::shared_ptr<Logger> log_ = NullLogger();
  std::vector<TestModel> models_;
};

// Prints the operations of the first run that failed.
class LogOnce {
 public:
  void After(const FaultInjector& injector) {
    if (!::testing::Test::HasFailure() || done_) return;
    done_ = true;
    std::fprintf(stderr, "%s:\n%s", injector.Plan().c_str(), injector.Log().c_str());
  }

 private:
  bool done_ = false;
};

class PublisherCrashTest : public ::testing::TestWithParam<Scenario> {
 protected:
  LogOnce log_once_;
};
INSTANTIATE_TEST_SUITE_P(
    Where, PublisherCrashTest,
    ::testing::Values(
        Scenario{"SameMachineKilled", Bucket::kSameMachine, "/state", Machine::kLives},
        Scenario{"SameMachinePowerCut", Bucket::kSameMachine, "/state", Machine::kLosesPower},
        Scenario{"SameMachinePowerCutKeepingSome", Bucket::kSameMachine, "/state",
                 Machine::kLosesPowerButKeepsSome},
        Scenario{"ElsewherePowerCut", Bucket::kElsewhere, "/state", Machine::kLosesPower},
        Scenario{"ElsewhereWithoutState", Bucket::kElsewhere, "", Machine::kLosesPower}),
    [](const auto& scenario) { return scenario.param.name; });

// One process: opens, publishes version 3, and 4 with an anchor. Counts what it was told to be
// published.
void Live(World& world, FaultInjector& injector, uint64_t* told) {
  const auto fs = MakeFaultInjectingFilesystem(world.machine(), injector);
  const auto inner = world.OpenStore(*fs);
  if (!inner) return;
  const auto store = MakeFaultInjectingStore(*inner, injector);
  auto publisher = world.OpenPublisher(*store, *fs);
  if (!publisher.ok()) return;
  for (uint64_t number = 3; number <= 4; ++number) {
    const auto published =
        (*publisher)->Publish(world.model(number).view(), {.anchor = number == 4});
    if (!published.ok()) return;
    *told = published->ref.id.number;
  }
}

TEST_P(PublisherCrashTest, KilledBeforeAndAfterEveryOperation) {
  VirtualClock clock;
  uint64_t runs = 0;
  const uint64_t operations =
      ForEachFault(clock, {Fault::KillBefore, Fault::KillAfter}, [&](FaultInjector& injector) {
        SCOPED_TRACE(injector.Plan());
        World world(GetParam());
        uint64_t told = 2;
        const bool survived = injector.Survives([&] { Live(world, injector, &told); });
        EXPECT_EQ(survived, injector.Plan().empty());
        if (!survived) world.AfterKill(++runs);
        const auto store = world.OpenStore(world.machine());
        const uint64_t number = world.CheckSound(*store, told, std::min<uint64_t>(told + 1, 4));
        world.Continue(number);
        log_once_.After(injector);
      });
  EXPECT_GT(operations, 25u);
}

// A single operation fails, or its answer is lost, and the same process tries again.
TEST_P(PublisherCrashTest, FailedOrUnansweredOnceAtEveryOperation) {
  if (GetParam().bucket == Bucket::kSameMachine && GetParam().machine != Machine::kLives) {
    return;  // nobody dies here, so this would be the same as SameMachineKilled
  }
  VirtualClock clock;
  ForEachFault(clock, {Fault::FailBefore, Fault::LoseAnswer}, [&](FaultInjector& injector) {
    SCOPED_TRACE(injector.Plan());
    World world(GetParam());
    uint64_t number = 2;
    {
      const auto fs = MakeFaultInjectingFilesystem(world.machine(), injector);
      std::unique_ptr<Store> inner;
      while (!inner) inner = world.OpenStore(*fs);
      const auto store = MakeFaultInjectingStore(*inner, injector);
      auto publisher = world.OpenPublisher(*store, *fs);
      if (!publisher.ok()) {
        world.clock().SleepFor(kSecond);
        publisher = world.OpenPublisher(*store, *fs);
      }
      ASSERT_TRUE(publisher.ok()) << publisher.status();
      for (int attempt = 0; attempt < 3; ++attempt) {
        // After an error the version may stand or not; what comes next tells.
        const auto published = (*publisher)->Publish(world.model(number + 1).view(), {});
        const auto clear_sight = world.OpenStore(world.machine());
        const uint64_t head = ReadHead(*clear_sight, "main")->head.version->id.number;
        EXPECT_LE(head, number + 1);
        EXPECT_TRUE(head == number + 1 || !published.ok());
        number = head;
      }
      EXPECT_GE(number, 4u) << "one fault costs one version at most";
    }
    const auto store = world.OpenStore(world.machine());
    world.CheckSound(*store, number, number);
    world.Continue(number);
    log_once_.After(injector);
  });
}

// The very first publication of a run, likewise.
TEST(PublisherFirstCrash, KilledBeforeAndAfterEveryOperationOfARunsFirstVersion) {
  VirtualClock clock;
  const TestModel model = RandomModel(TinySchema(), 1);
  ForEachFault(clock, {Fault::KillBefore, Fault::KillAfter}, [&](FaultInjector& injector) {
    SCOPED_TRACE(injector.Plan());
    UnsyncedFilesystem machine(clock);
    CountingNonces nonces(1);
    const auto log = NullLogger();
    const auto live = [&](Filesystem& fs) -> Status {
      PULSE_ASSIGN_OR_RETURN(const auto store,
                             OpenFileStore({.root = "/bucket", .create = true}, fs, clock));
      const PublisherDeps deps{*store, fs, clock, nonces, TestKernels(), *log};
      PULSE_ASSIGN_OR_RETURN(auto publisher, Publisher::Open({.state_directory = "/state"}, deps));
      return publisher->Publish(model.view(), {}).status();
    };
    const auto faulty = MakeFaultInjectingFilesystem(machine, injector);
    if (!injector.Survives([&] { live(*faulty).IgnoreError(); })) machine.Crash();
    clock.SleepFor(kSecond);
    ASSERT_TRUE(live(machine).ok());
    const auto store = OpenFileStore({.root = "/bucket"}, machine, clock);
    const auto report = VerifyRun(**store, TestKernels(), {.chain = kChain, .progress = {}});
    EXPECT_THAT(report->problems, IsEmpty());
    Follower follower;
    ASSERT_TRUE(follower.Follow(**store, kChain).ok());
    EXPECT_TRUE(SameBits(follower.model, model));
  });
}

}  // namespace
}  // namespace pulse
