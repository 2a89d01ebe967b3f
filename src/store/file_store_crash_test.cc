// Power failures: a process dies before or after each operation of a put or delete, the machine
// forgets what was not synced (all of it, or as much as a seed says), and what is there then must
// be the old object or the new one, whole; the new one if the put had returned.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ostream>

#include "store/fault_injecting_filesystem.h"
#include "store/file_store.h"
#include "store/unsynced_filesystem.h"

namespace pulse {
namespace {

const std::string kOld = std::string(70'000, 'o'), kNew = std::string(90'000, 'n');
constexpr std::string_view kKey = "runs/x/object";
constexpr uint64_t kSeeds = 12;  // of crashes that keep some; one more that keeps nothing

StatusOr<ObjectInfo> Put(Store& store, std::string_view key, std::string_view text,
                         const PutCondition& condition) {
  return store.Put(key, MemorySource(AsBytes(text)), condition);
}

// A machine that is used, dies and comes back.
class Machine {
 public:
  Machine() { EXPECT_TRUE(fs_.CreateDirectories("/disk/bucket").ok()); }

  UnsyncedFilesystem& fs() { return fs_; }
  Clock& clock() { return clock_; }
  std::unique_ptr<Store> Open(Filesystem& fs) {
    auto store = OpenFileStore({.root = "/disk/bucket"}, fs, clock_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::unique_ptr<Store> Open() { return Open(fs_); }
  std::string TextOf(std::string_view key) {
    const auto object = Open()->Get(key, 1 << 20);
    return object.ok() ? std::string(AsText(object->bytes))
                       : std::string(absl::StatusCodeToString(object.status().code()));
  }
  void Crash(uint64_t seed) { seed == 0 ? fs_.Crash() : fs_.CrashKeepingSome(seed); }

 private:
  VirtualClock clock_;
  UnsyncedFilesystem fs_{clock_};
};

const std::vector<MakeFault> kEveryFault = {Fault::KillBefore, Fault::KillAfter, Fault::FailBefore,
                                            Fault::LoseAnswer, [](uint64_t n) {
                                              Fault fault = Fault::LoseAnswer(n);
                                              fault.status = ResourceExhausted("no space");
                                              return fault;
                                            }};

// An error after which nothing may have changed.
bool IsDefinite(const Status& status) {
  return !status.ok() && !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
}

struct Case {
  std::string name;
  bool existed;
  PutCondition (*condition)(Store&);

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

std::string NameOfCase(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class PutAndPowerFailure : public testing::TestWithParam<Case> {
 protected:
  // One life with the fault that `injector` holds, a crash, and a look at what is left.
  void Try(FaultInjector& injector, uint64_t seed) {
    Machine machine;
    if (GetParam().existed) {
      ASSERT_TRUE(Put(*machine.Open(), kKey, kOld, PutCondition::None()).ok());
    }
    const std::string before = machine.TextOf(kKey);
    const auto faulty = MakeFaultInjectingFilesystem(machine.fs(), injector);
    std::optional<Status> result;  // none if it died
    const PutCondition condition = GetParam().condition(*machine.Open());
    injector.Survives([&] {
      const auto store = OpenFileStore({.root = "/disk/bucket"}, *faulty, machine.clock());
      result = store.ok() ? Put(**store, kKey, kNew, condition).status() : Cancelled("not opened");
    });
    machine.Crash(seed);
    const std::string after = machine.TextOf(kKey);
    const std::string trace = fmt::format("{}, seed {}, result {}\n{}", injector.Plan(), seed,
                                          result ? result->ToString() : "none", injector.Log());
    EXPECT_TRUE(after == before || after == kNew) << trace << after.size();
    if (result && result->ok()) {
      EXPECT_TRUE(after == kNew) << trace;
    }
    if (result && IsDefinite(*result)) {
      EXPECT_TRUE(after == before) << trace;
    }
    CheckThatLifeGoesOn(machine, trace);
  }

  void CheckThatLifeGoesOn(Machine& machine, const std::string& trace) {
    const auto store = machine.Open();
    const auto removed =
        RemoveStaleTemporaries("/disk/bucket", -1'000'000'000, machine.fs(), machine.clock());
    ASSERT_TRUE(removed.ok()) << removed.status();
    const auto retried = Put(*store, kKey, "retried", PutCondition::None());
    ASSERT_TRUE(retried.ok()) << retried.status() << trace;
    const auto names = machine.fs().List("/disk/bucket/runs/x");
    ASSERT_TRUE(names.ok());
    for (const DirectoryEntry& entry : *names) {
      EXPECT_TRUE(entry.name == "object" || entry.name == ".tmp.lock") << entry.name << trace;
    }
    machine.Crash(0);
    EXPECT_EQ(machine.TextOf(kKey), "retried") << trace;
  }
};

TEST_P(PutAndPowerFailure, LeavesTheOldOrTheNewObjectWhole) {
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    VirtualClock clock;
    const uint64_t operations =
        ForEachFault(clock, kEveryFault, [&](FaultInjector& injector) { Try(injector, seed); });
    EXPECT_GE(operations, 14u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, PutAndPowerFailure,
    testing::Values(
        Case{"Anew", false, [](Store&) { return PutCondition::None(); }},
        Case{"AnewIfAbsent", false, [](Store&) { return PutCondition::IfAbsent(); }},
        Case{"OverAnother", true, [](Store&) { return PutCondition::None(); }},
        Case{"OverAnotherIfAbsent", true, [](Store&) { return PutCondition::IfAbsent(); }},
        Case{"OverAnotherIfMatching", true,
             [](Store& store) { return PutCondition::IfMatch(store.Stat(kKey)->etag); }}),
    NameOfCase);

TEST(DeleteAndPowerFailure, LeavesTheObjectOrNothing) {
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    VirtualClock clock;
    ForEachFault(clock, kEveryFault, [&](FaultInjector& injector) {
      Machine machine;
      ASSERT_TRUE(Put(*machine.Open(), kKey, kOld, PutCondition::None()).ok());
      ASSERT_TRUE(Put(*machine.Open(), "runs/other", "stays", PutCondition::None()).ok());
      const auto faulty = MakeFaultInjectingFilesystem(machine.fs(), injector);
      bool deleted = false;
      injector.Survives([&] {
        const auto store = OpenFileStore({.root = "/disk/bucket"}, *faulty, machine.clock());
        deleted = store.ok() && (*store)->Delete(kKey).ok();
      });
      if (seed % 2 == 1) deleted = machine.Open()->Delete(kKey).ok();  // asked again
      machine.Crash(seed);
      const std::string after = machine.TextOf(kKey);
      EXPECT_TRUE(after == "NOT_FOUND" || after == kOld) << injector.Plan() << injector.Log();
      EXPECT_TRUE(!deleted || after == "NOT_FOUND") << injector.Plan() << injector.Log();
      EXPECT_EQ(machine.TextOf("runs/other"), "stays");
      EXPECT_TRUE(machine.Open()->Delete(kKey).ok());
    });
  }
}

// The first dies somewhere in its swap, the machine stays up, the second builds on what it sees,
// and only then the power fails.
TEST(SwapAndPowerFailure, KeepsWhatTheSecondSwappedAlthoughTheFirstDidNotFinish) {
  VirtualClock clock;
  ForEachFault(clock, {Fault::KillBefore, Fault::KillAfter}, [&](FaultInjector& injector) {
    Machine machine;
    const auto first = Put(*machine.Open(), kKey, "1", PutCondition::IfAbsent());
    ASSERT_TRUE(first.ok());
    const auto faulty = MakeFaultInjectingFilesystem(machine.fs(), injector);
    injector.Survives([&] {
      const auto store = OpenFileStore({.root = "/disk/bucket"}, *faulty, machine.clock());
      Put(**store, kKey, "2", PutCondition::IfMatch(first->etag)).status().IgnoreError();
    });
    const auto second = machine.Open();
    const auto seen = second->Stat(kKey);
    ASSERT_TRUE(seen.ok());
    const auto put = Put(*second, kKey, "3", PutCondition::IfMatch(seen->etag));
    ASSERT_TRUE(put.ok()) << put.status() << injector.Log();
    machine.Crash(0);
    EXPECT_EQ(machine.TextOf(kKey), "3") << injector.Plan() << injector.Log();
  });
}

TEST(FoldersAndPowerFailure, SyncsFoldersThatAnotherProcessMadeAndDidNotYetSync) {
  Machine machine;
  ASSERT_TRUE(machine.fs().CreateDirectories("/disk/bucket/made/x").ok());
  ASSERT_TRUE(machine.fs().Rename("/disk/bucket/made", "/disk/bucket/runs").ok());
  ASSERT_TRUE(Put(*machine.Open(), kKey, kNew, PutCondition::IfAbsent()).ok());
  machine.Crash(0);
  EXPECT_EQ(machine.TextOf(kKey), kNew);
}

TEST(FoldersAndPowerFailure, SyncsAFolderAgainThatWasRemovedAndMadeAnew) {
  Machine machine;
  const auto store = machine.Open();
  ASSERT_TRUE(Put(*store, kKey, kOld, PutCondition::None()).ok());
  // Another process empties and so removes the folder, a third makes it and has not synced it yet.
  ASSERT_TRUE(machine.Open()->Delete(kKey).ok());
  ASSERT_TRUE(machine.fs().CreateDirectories("/disk/bucket/made/x").ok());
  ASSERT_TRUE(machine.fs().Rename("/disk/bucket/made", "/disk/bucket/runs").ok());
  ASSERT_TRUE(Put(*store, kKey, kNew, PutCondition::None()).ok());
  machine.Crash(0);
  EXPECT_EQ(machine.TextOf(kKey), kNew);
}

TEST(FoldersAndPowerFailure, PutsAgainIntoAFolderThatItsOwnDeleteRemoved) {
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    Machine machine;
    const auto store = machine.Open();
    for (const std::string text : {"1", "2", "3"}) {
      ASSERT_TRUE(Put(*store, kKey, text, PutCondition::IfAbsent()).ok());
      machine.Crash(seed);
      EXPECT_EQ(machine.TextOf(kKey), text);
      ASSERT_TRUE(store->Delete(kKey).ok());
      machine.Crash(seed);
      EXPECT_EQ(machine.TextOf(kKey), "NOT_FOUND");
    }
  }
}

}  // namespace
}  // namespace pulse
