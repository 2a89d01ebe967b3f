#include "store/fault_injector.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"

namespace pulse {
namespace {

class FaultInjectorTest : public testing::Test {
 protected:
  // Three operations: puts a, puts b, deletes a.
  Status Live(FaultInjector& injector) {
    const auto store = MakeFaultInjectingStore(*base_, injector);
    PULSE_RETURN_IF_ERROR(store->Put("a", MemorySource({}), PutCondition::None()).status());
    PULSE_RETURN_IF_ERROR(store->Put("b", MemorySource({}), PutCondition::None()).status());
    return store->Delete("a");
  }
  std::string Keys() {
    std::string keys;
    const auto all = ListAll(*base_, "", false);
    for (const ObjectInfo& object : all->objects) keys += object.key;
    return keys;
  }
  static Fault At(uint64_t operation, Fault::When when, Fault::Action action) {
    Fault fault;
    fault.operation = operation;
    fault.when = when;
    fault.action = action;
    return fault;
  }

  VirtualClock clock_;
  std::unique_ptr<Store> base_ = MakeMemoryStore(clock_);
};

TEST_F(FaultInjectorTest, CountsAndLogsWhatPasses) {
  FaultInjector injector(clock_);
  ASSERT_TRUE(Live(injector).ok());
  EXPECT_EQ(injector.operations(), 3u);
  EXPECT_EQ(injector.Log(), "0 store.Put a: OK\n1 store.Put b: OK\n2 store.Delete a: OK\n");
  EXPECT_EQ(injector.Plan(), "");
  EXPECT_EQ(CountOperations(clock_, [&](FaultInjector& counter) { Live(counter).IgnoreError(); }),
            3u);
}

TEST_F(FaultInjectorTest, FailsBeforeAnOperationSoThatItDoesNotHappen) {
  Fault fault = Fault::FailBefore(1);
  fault.status = ResourceExhausted("no space");
  FaultInjector injector(clock_, {fault});
  EXPECT_EQ(Live(injector), ResourceExhausted("no space"));
  EXPECT_EQ(Keys(), "a");
  EXPECT_EQ(injector.Plan(), "fail before 1");
  EXPECT_EQ(injector.Log(), "0 store.Put a: OK\n1 store.Put b: RESOURCE_EXHAUSTED: no space\n");
}

TEST_F(FaultInjectorTest, LosesTheAnswerOfAnOperationThatHappened) {
  FaultInjector injector(clock_, {Fault::LoseAnswer(1)});
  EXPECT_TRUE(absl::IsUnavailable(Live(injector)));
  EXPECT_EQ(Keys(), "ab");
}

TEST_F(FaultInjectorTest, KillsBeforeAndAfterAnOperation) {
  FaultInjector before(clock_, {Fault::KillBefore(1)});
  EXPECT_FALSE(before.Survives([&] { Live(before).IgnoreError(); }));
  EXPECT_EQ(Keys(), "a");
  FaultInjector after(clock_, {Fault::KillAfter(1)});
  EXPECT_FALSE(after.Survives([&] { Live(after).IgnoreError(); }));
  EXPECT_EQ(Keys(), "ab");
  EXPECT_TRUE(after.dead());
}

TEST_F(FaultInjectorTest, LetsNothingHappenAfterDeath) {
  FaultInjector injector(clock_, {Fault::KillBefore(0)});
  const auto store = MakeFaultInjectingStore(*base_, injector);
  struct CleansUp {
    Store& store;
    ~CleansUp() { EXPECT_TRUE(absl::IsUnavailable(store.Delete("a"))); }
  };
  ASSERT_TRUE(base_->Put("a", MemorySource({}), PutCondition::None()).ok());
  EXPECT_FALSE(injector.Survives([&] {
    const CleansUp cleans_up{*store};
    store->Stat("a").status().IgnoreError();
  }));
  EXPECT_EQ(Keys(), "a");
  EXPECT_EQ(injector.operations(), 1u);
}

TEST_F(FaultInjectorTest, SilencesWithoutThrowing) {
  FaultInjector injector(clock_, {At(1, Fault::When::kBefore, Fault::Action::kSilence)});
  Status status;
  EXPECT_FALSE(injector.Survives([&] { status = Live(injector); }));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(Keys(), "a");
}

TEST_F(FaultInjectorTest, DelaysOnItsClockAndCallsOut) {
  Fault delay = At(0, Fault::When::kBefore, Fault::Action::kDelay);
  delay.delay_ns = 5;
  Fault call = At(2, Fault::When::kAfter, Fault::Action::kCall);
  std::string seen;
  call.call = [&] { seen = Keys(); };
  FaultInjector injector(clock_, {delay, call});
  EXPECT_TRUE(Live(injector).ok());
  EXPECT_EQ(clock_.NowNs(), 5);
  EXPECT_EQ(seen, "b");
}

TEST_F(FaultInjectorTest, KillsTheRealProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultInjector injector(clock_, {At(1, Fault::When::kAfter, Fault::Action::kKillProcess)});
    Live(injector).IgnoreError();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(FaultInjectorTest, TriesEveryKindOfFaultAtEveryOperation) {
  std::string plans;
  const uint64_t operations =
      ForEachFault(clock_, {Fault::KillBefore, Fault::LoseAnswer}, [&](FaultInjector& injector) {
        injector.Survives([&] { Live(injector).IgnoreError(); });
        plans += injector.Plan() + '|';
      });
  EXPECT_EQ(operations, 3u);
  EXPECT_EQ(plans,
            "|kill before 0|fail after 0|kill before 1|fail after 1|kill before 2|fail after 2|");
}

TEST_F(FaultInjectorTest, CountsFilesAndStoresTogether) {
  UnsyncedFilesystem base(clock_);
  FaultInjector injector(clock_, {Fault::LoseAnswer(3)});
  const auto fs = MakeFaultInjectingFilesystem(base, injector);
  ASSERT_TRUE(Live(injector).ok());
  EXPECT_TRUE(absl::IsUnavailable(fs->CreateDirectories("/x")));
  const auto file = fs->Create("/x/f");
  ASSERT_TRUE(file.ok() && (*file)->Append(AsBytes("1")).ok() && (*file)->Close().ok());
  EXPECT_TRUE(fs->Open("/x/f").ok());
  EXPECT_EQ(injector.operations(), 8u) << injector.Log();
  EXPECT_NE(injector.Log().find("5 file.Append /x/f: OK"), std::string::npos) << injector.Log();
}

}  // namespace
}  // namespace pulse
