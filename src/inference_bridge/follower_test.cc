#include "inference_bridge/follower.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "inference_bridge/follow_test_world.h"
#include "store/fault_injecting_store.h"
#include "store/file_store.h"
#include "sync/retention.h"
#include "sync/signature.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOut[] = "/host/current.safetensors";

std::string Message(const Status& status) {
  return std::string(ToStd(status.message()));
}

// One bucket in memory, one machine.
class FollowerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Follower> OpenFollower() {
    auto follower = machine_.Open(*store_);
    EXPECT_TRUE(follower.ok()) << follower.status();
    return *std::move(follower);
  }
  // A new follower that goes to the newest version and ends.
  StatusOr<FollowResult> FollowOnce(FollowTarget target = {}) {
    PULSE_ASSIGN_OR_RETURN(const auto follower, machine_.Open(*store_));
    return follower->Step(target);
  }
  uint64_t InPlace() { return VersionAt(machine_.fs, kOut, publisher_); }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  TestPublisher publisher_{*store_, clock_};
  TestMachine machine_{clock_};
};

TEST_F(FollowerTest, SaysWhatItDid) {
  publisher_.Publish();
  auto follower = OpenFollower();
  const auto first = follower->Step();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->version.id, publisher_.id(1));
  EXPECT_EQ(first->digest, publisher_.digest(1));
  EXPECT_TRUE(first->changed);
  EXPECT_TRUE(first->from_anchor);
  EXPECT_EQ(first->versions, 1u);
  EXPECT_EQ(first->objects, 1u);
  EXPECT_EQ(first->bytes, publisher_.manifest(1).bytes(PayloadRole::kAnchor));
  EXPECT_EQ(first->view_bytes, publisher_.schema().bytes());

  publisher_.Publish();
  publisher_.Publish(false, {{"round", "3"}});
  const auto second = follower->Step();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->version.id, publisher_.id(3));
  EXPECT_FALSE(second->from_anchor);
  EXPECT_EQ(second->versions, 2u);
  EXPECT_EQ(second->bytes, publisher_.manifest(2).bytes(PayloadRole::kDelta) +
                               publisher_.manifest(3).bytes(PayloadRole::kDelta));
  EXPECT_EQ(second->metadata.at("round"), "3");
  EXPECT_EQ(InPlace(), 3u);
  EXPECT_THAT(
      NamesIn(machine_.fs, "/host"),
      ElementsAre("current.safetensors", "current.safetensors.lock", "current.safetensors.state"));
}

TEST_F(FollowerTest, TheFileLoadsAnywhereAndSaysWhatItIs) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  const auto checkpoint = Checkpoint::Open(machine_.fs, kOut);
  ASSERT_TRUE(checkpoint.ok());
  const auto& metadata = (*checkpoint)->metadata();
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at(kFollowRunKey), "main");
  EXPECT_EQ(metadata.at(kFollowVersionKey), publisher_.id(1).Folder());
  EXPECT_EQ(metadata.at(kFollowDigestKey), publisher_.digest(1).Hex());
}

TEST_F(FollowerTest, AnIdleStepReadsTheHeadAndNothingElse) {
  publisher_.Publish();
  FaultInjector injector(clock_);
  const auto store = MakeFaultInjectingStore(*store_, injector);
  auto follower = *machine_.Open(*store);
  ASSERT_TRUE(follower->Step().ok());
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = injector.operations();
    const auto idle = follower->Step();
    ASSERT_TRUE(idle.ok());
    EXPECT_FALSE(idle->changed);
    EXPECT_EQ(idle->version.id, publisher_.id(1));
    EXPECT_EQ(idle->bytes, 0u);
    EXPECT_EQ(injector.operations(), before + 1);
  }
  EXPECT_THAT(injector.Log(), HasSubstr("HEAD"));
}

TEST_F(FollowerTest, ContinuesFromItsOwnFileAfterARestart) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  publisher_.Publish();
  const auto result = FollowOnce();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->from_anchor);
  EXPECT_EQ(InPlace(), 2u);
  EXPECT_FALSE(FollowOnce()->changed);
}

TEST_F(FollowerTest, NothingPublishedYetIsNotFound) {
  const Status status = FollowOnce().status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(InPlace(), 0u);
}

TEST_F(FollowerTest, TakesEveryVersionInTurnWhenAsked) {
  for (int i = 0; i < 3; ++i) publisher_.Publish();
  auto follower = OpenFollower();
  for (const uint64_t expected : {1, 2, 3, 3}) {
    const auto result = follower->Step(FollowTarget::Next());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->version.id.number, expected);
    EXPECT_EQ(result->digest, publisher_.digest(expected));
    EXPECT_EQ(result->newest, 3u);
    EXPECT_EQ(InPlace(), expected);
  }
}

TEST_F(FollowerTest, BringsTheVersionThatIsAskedForButNeverGoesBack) {
  for (int i = 0; i < 4; ++i) publisher_.Publish();
  auto follower = OpenFollower();
  ASSERT_TRUE(follower->Step(FollowTarget::Number(2)).ok());
  EXPECT_EQ(InPlace(), 2u);
  EXPECT_FALSE(follower->Step(FollowTarget::Number(2))->changed);
  EXPECT_TRUE(absl::IsNotFound(follower->Step(FollowTarget::Number(9)).status()));
  ASSERT_TRUE(follower->Step(FollowTarget::Number(3)).ok());
  const Status back = follower->Step(FollowTarget::Number(2)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(back));
  EXPECT_THAT(Message(back), HasSubstr("holds version 3 and never goes back"));
  EXPECT_EQ(InPlace(), 3u);
}

TEST_F(FollowerTest, ASmallMemoryBoundGoesThroughFilesThatAreGoneAfterwards) {
  for (int i = 0; i < 3; ++i) publisher_.Publish();
  FollowerOptions options = machine_.Options();
  options.memory_bytes = 0;
  auto follower = *machine_.Open(*store_, options);
  ASSERT_TRUE(follower->Step().ok());
  EXPECT_EQ(InPlace(), 3u);
  EXPECT_EQ(NamesIn(machine_.fs, "/host").size(), 3u);
}

TEST_F(FollowerTest, AFolderIsExchangedByItsLinkAndTheVersionBeforeStaysForAWhile) {
  FollowerOptions options = machine_.Options("/host/model");
  options.layout = OutputLayout::kFolder;
  auto follower = *machine_.Open(*store_, options);
  for (uint64_t number = 1; number <= 4; ++number) {
    publisher_.Publish();
    ASSERT_TRUE(follower->Step().ok());
    EXPECT_EQ(VersionAt(machine_.fs, "/host/model", publisher_), number);
    EXPECT_EQ(*machine_.fs.ReadSymlink("/host/model"),
              "model.versions/" + publisher_.id(number).Folder());
    EXPECT_EQ(NamesIn(machine_.fs, "/host/model.versions").size(), number == 1 ? 1u : 2u);
    EXPECT_EQ(VersionAt(machine_.fs, "/host/model.versions/" + publisher_.id(number).Folder(),
                        publisher_),
              number);
  }
  follower.reset();
  options.layout = OutputLayout::kFile;
  const Status status = machine_.Open(*store_, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(Message(status), HasSubstr("there is a symlink in its place, not a file"));
}

TEST_F(FollowerTest, ThreadsChangeNothingButTheTime) {
  for (int i = 0; i < 5; ++i) publisher_.Publish();
  FollowerOptions options = machine_.Options();
  options.parallel_fetches = 4;
  options.threads = 3;
  ASSERT_TRUE((*machine_.Open(*store_, options))->Step().ok());
  const Bytes threaded = *ReadFile(machine_.fs, kOut, 1 << 20);
  options = machine_.Options("/host/plain.safetensors");
  ASSERT_TRUE((*machine_.Open(*store_, options))->Step().ok());
  EXPECT_EQ(*ReadFile(machine_.fs, "/host/plain.safetensors", 1 << 20), threaded);
}

TEST_F(FollowerTest, StopsWhenAskedWithTheOldVersionInPlace) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  publisher_.Publish();
  for (int when = 0; when < 2; ++when) {
    int asked = 0;
    FollowerOptions options = machine_.Options();
    options.stop = [&] { return asked++ == when; };
    EXPECT_TRUE(absl::IsCancelled((*machine_.Open(*store_, options))->Step().status()));
    EXPECT_EQ(InPlace(), 1u);
    EXPECT_EQ(NamesIn(machine_.fs, "/host").size(), 3u);
  }
}

TEST_F(FollowerTest, TellsItsProgress) {
  publisher_.Publish();
  std::map<FollowPhase, std::pair<uint64_t, uint64_t>> last;
  FollowerOptions options = machine_.Options();
  options.progress = [&](FollowPhase phase, uint64_t done, uint64_t total) {
    last[phase] = {done, total};
  };
  const auto result = (*machine_.Open(*store_, options))->Step();
  EXPECT_EQ(last[FollowPhase::kFetch], std::pair(result->bytes, result->bytes));
  EXPECT_EQ(last[FollowPhase::kRebuild], std::pair(result->view_bytes, result->view_bytes));
}

TEST_F(FollowerTest, RefusesUnsignedVersionsWhenItHasAKeyToTrust) {
  publisher_.Publish();
  FollowerOptions options = machine_.Options();
  options.trusted_key = std::string(64, 'a');
  const Status status = (*machine_.Open(*store_, options))->Step().status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_EQ(InPlace(), 0u);
}

TEST_F(FollowerTest, FollowsThePublisherWhoseKeyItTrusts) {
  // RFC 8032, section 7.1, TEST 1, as PKCS #8.
  const auto key = SigningKey::FromPem(
      "-----BEGIN PRIVATE KEY-----\n"
      "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
      "-----END PRIVATE KEY-----\n");
  ASSERT_TRUE(key.ok()) << key.status();
  const auto store = MakeMemoryStore(clock_);
  TestPublisher publisher(*store, clock_, 1, *key);
  publisher.Publish();
  FollowerOptions options = machine_.Options();
  options.trusted_key = (*key)->public_key_hex();
  const auto result = (*machine_.Open(*store, options))->Step();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(VersionAt(machine_.fs, kOut, publisher), 1u);
}

// With the retention of a real publisher running behind it.
TEST_F(FollowerTest, LagsBehindRetentionAndCatchesUp) {
  RetentionOptions retention;
  retention.keep_versions = 3;
  retention.min_age_ms = 0;
  auto follower = *machine_.Open(*store_);
  uint64_t jumps = 0;
  for (uint64_t number = 1; number <= 40; ++number) {
    publisher_.Publish(number % 10 == 0);
    const auto plan = PlanGc(*store_, clock_, retention);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(ExecuteGc(*store_, *plan).errors.empty());
    if (number % 13 != 0) continue;
    const auto result = follower->Step();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->digest, publisher_.digest(number));
    jumps += result->from_anchor;
    EXPECT_EQ(InPlace(), number);
  }
  EXPECT_EQ(jumps, 3u);  // at 13, 26 and 39 what it held was gone
}

// The whole way, on each kind of store.
class FollowerOnStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  FollowerOnStoreTest() {
    if (!GetParam()) {
      store_ = MakeMemoryStore(clock_);
      return;
    }
    root_ = ::testing::TempDir() + fmt::format("follower_test_{}", ::getpid());
    store_ = *OpenFileStore({.root = root_, .create = true}, *posix_, clock_);
  }
  ~FollowerOnStoreTest() override {
    store_.reset();
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }

  VirtualClock clock_;
  std::unique_ptr<Filesystem> posix_ = MakePosixFilesystem();
  std::string root_;
  std::unique_ptr<Store> store_;
};

TEST_P(FollowerOnStoreTest, SixtyVersionsAreBitIdenticalForEveryFollower) {
  TestPublisher publisher(*store_, clock_);
  TestMachine steady(clock_), restarted(clock_), late(clock_), lazy(clock_);
  auto follower = *steady.Open(*store_);
  std::unique_ptr<Follower> late_follower;
  uint64_t late_number = 0;
  for (uint64_t number = 1; number <= 60; ++number) {
    ASSERT_NO_FATAL_FAILURE(publisher.Publish(number % 25 == 0));
    // Every version, by one follower.
    const auto result = follower->Step(FollowTarget::Next());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->digest, publisher.digest(number));
    EXPECT_EQ(VersionAt(steady.fs, kOut, publisher), number);
    // Every version, by a follower that is started for each.
    {
      auto once = *restarted.Open(*store_);
      const auto mine = once->Step();
      ASSERT_TRUE(mine.ok()) << mine.status();
      EXPECT_EQ(mine->digest, publisher.digest(number));
      EXPECT_EQ(mine->from_anchor, number == 1);
      EXPECT_EQ(VersionAt(restarted.fs, kOut, publisher), number);
    }
    // One in seven.
    if (number % 7 == 0) {
      auto once = *lazy.Open(*store_);
      ASSERT_TRUE(once->Step().ok());
      EXPECT_EQ(VersionAt(lazy.fs, kOut, publisher), number);
    }
    // Every version, by one that came late and catches up two at a time.
    if (number < 30) continue;
    if (late_follower == nullptr) late_follower = *late.Open(*store_);
    for (int i = 0; i < 2; ++i) {
      const auto mine = late_follower->Step(FollowTarget::Next());
      ASSERT_TRUE(mine.ok()) << mine.status();
      late_number = mine->version.id.number;
      EXPECT_EQ(mine->digest, publisher.digest(late_number));
      EXPECT_EQ(VersionAt(late.fs, kOut, publisher), late_number);
    }
  }
  EXPECT_EQ(late_number, 60u);
}

INSTANTIATE_TEST_SUITE_P(Store, FollowerOnStoreTest, ::testing::Bool(),
                         [](const auto& about) { return about.param ? "File" : "Memory"; });

}  // namespace
}  // namespace pulse
