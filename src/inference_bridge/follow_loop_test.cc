#include "inference_bridge/follow_loop.h"

#include <gmock/gmock.h>

#include "inference_bridge/fake_engine.h"
#include "inference_bridge/follow_test_world.h"
#include "store/fault_injecting_store.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;

class FollowLoopTest : public ::testing::Test {
 protected:
  FollowLoopTest() {
    options_.on_version = [this](const FollowResult& result) {
      numbers_.push_back(result.version.id.number);
      EXPECT_EQ(result.digest, publisher_.digest(result.version.id.number));
      return OkStatus();
    };
    // Every test ends, whatever it does wrong.
    options_.stop = [this] { return clock_.NowNs() > 1'000'000 * kMs; };
  }
  void OpenFollower() { follower_ = *machine_.Open(*store_); }
  Status Run() { return FollowLoop(*follower_, clock_, *machine_.log, options_); }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  TestPublisher publisher_{*store_, clock_};
  TestMachine machine_{clock_};
  std::unique_ptr<Follower> follower_;
  FollowLoopOptions options_;
  std::vector<uint64_t> numbers_;
};

TEST_F(FollowLoopTest, TakesTheNewestAndEndsAtTheFinalVersion) {
  publisher_.Publish();
  publisher_.Publish();
  OpenFollower();
  options_.until_final = true;
  options_.stop = [&] {
    // While it sleeps, two versions come at a time.
    if (clock_.NowNs() > 900 * kMs && publisher_.newest() < 6) {
      publisher_.Publish();
      publisher_.Publish(false, {{"final", publisher_.newest() == 5 ? "true" : "false"}});
    }
    return clock_.NowNs() > 100'000 * kMs;
  };
  EXPECT_EQ(Run(), OkStatus());
  EXPECT_EQ(numbers_.front(), 2u);
  EXPECT_EQ(numbers_.back(), 6u);
  EXPECT_EQ(VersionAt(machine_.fs, follower_->output().path(), publisher_), 6u);
}

TEST_F(FollowLoopTest, TakesEveryVersionInTurnWhenAsked) {
  for (int i = 0; i < 5; ++i) publisher_.Publish();
  publisher_.Publish(false, {{"final", "true"}});
  OpenFollower();
  options_.every_version = true;
  options_.until_final = true;
  EXPECT_EQ(Run(), OkStatus());
  EXPECT_THAT(numbers_, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(clock_.NowNs(), 0) << "it slept though there was work";
}

TEST_F(FollowLoopTest, PassesTheFinalVersionOfARunThatWasResumedBehindIt) {
  publisher_.Publish();
  publisher_.Publish(false, {{"final", "true"}});  // stopped here
  publisher_.Publish();
  publisher_.Publish(false, {{"final", "true"}});
  OpenFollower();
  options_.every_version = true;
  options_.until_final = true;
  EXPECT_EQ(Run(), OkStatus());
  EXPECT_THAT(numbers_, ElementsAre(1, 2, 3, 4));
}

TEST_F(FollowLoopTest, SkipsToTheNewestOtherwise) {
  for (int i = 0; i < 5; ++i) publisher_.Publish();
  OpenFollower();
  options_.stop = [&] { return !numbers_.empty(); };
  EXPECT_TRUE(absl::IsCancelled(Run()));
  EXPECT_THAT(numbers_, ElementsAre(5));
}

TEST_F(FollowLoopTest, TellsOfTheVersionThatIsThereAtTheStart) {
  publisher_.Publish(false, {{"final", "true"}});
  OpenFollower();
  ASSERT_TRUE(follower_->Step().ok());
  options_.until_final = true;
  FakeEngine engine;
  options_.engines = {&engine};
  EXPECT_EQ(Run(), OkStatus());
  EXPECT_THAT(numbers_, ElementsAre(1));
  EXPECT_THAT(engine.calls(), ElementsAre("pause", "swap 1", "resume"));
}

TEST_F(FollowLoopTest, WaitsForARunThatIsNotThereYetOnlyWhenAsked) {
  OpenFollower();
  EXPECT_TRUE(absl::IsNotFound(Run()));
  options_.wait_for_bucket = true;
  options_.until_final = true;
  options_.stop = [&] {
    if (clock_.NowNs() > 5'000 * kMs && publisher_.newest() == 0) {
      publisher_.Publish(false, {{"final", "true"}});
    }
    return clock_.NowNs() > 100'000 * kMs;
  };
  EXPECT_EQ(Run(), OkStatus());
  EXPECT_THAT(numbers_, ElementsAre(1));
}

TEST_F(FollowLoopTest, WhatWasThereAndIsGoneIsAnError) {
  publisher_.Publish();
  OpenFollower();
  options_.wait_for_bucket = true;
  options_.on_version = [&](const FollowResult&) {
    Restore(*store_, {});
    return OkStatus();
  };
  EXPECT_TRUE(absl::IsNotFound(Run()));
}

TEST_F(FollowLoopTest, BacksOffWhileTheStoreIsGone) {
  publisher_.Publish(false, {{"final", "true"}});
  std::vector<Fault> faults;
  for (uint64_t i = 0; i < 7; ++i) faults.push_back(Fault::FailBefore(i));
  faults[1].status = DeadlineExceeded("the store did not answer");
  FaultInjector injector(clock_, faults);
  const auto store = MakeFaultInjectingStore(*store_, injector);
  follower_ = *machine_.Open(*store);
  options_.until_final = true;
  EXPECT_EQ(Run(), OkStatus());
  EXPECT_EQ(clock_.NowNs(), (1 + 2 + 4 + 8 + 16 + 30 + 30) * 1000 * kMs) << injector.Log();
}

TEST_F(FollowLoopTest, EndsWithAnErrorThatWaitingDoesNotCure) {
  publisher_.Publish();
  OpenFollower();
  options_.on_version = [&](const FollowResult&) {
    publisher_.Publish();
    const std::string key = publisher_.Key(2, PayloadRole::kDelta);
    PutObject(*store_, key, AsBytes("damaged"));
    return OkStatus();
  };
  EXPECT_TRUE(absl::IsDataLoss(Run()));
  EXPECT_EQ(VersionAt(machine_.fs, follower_->output().path(), publisher_), 1u);
}

TEST_F(FollowLoopTest, EndsWithTheErrorOfTheCallback) {
  publisher_.Publish();
  OpenFollower();
  options_.on_version = [](const FollowResult&) { return Internal("no"); };
  EXPECT_EQ(Run(), Internal("no"));
}

TEST_F(FollowLoopTest, AnEngineThatFailsIsToldAgain) {
  publisher_.Publish();
  OpenFollower();
  FakeEngine failing, other;
  failing.FailNext("swap", Unavailable("busy"));
  options_.engines = {&failing, &other};
  options_.stop = [&] { return clock_.NowNs() > 3'000 * kMs; };
  EXPECT_TRUE(absl::IsCancelled(Run()));
  EXPECT_THAT(failing.calls(),
              ElementsAre("pause", "swap 1", "resume", "pause", "swap 1", "resume"));
  EXPECT_THAT(other.calls(), ElementsAre("pause", "swap 1", "resume"));
  ASSERT_EQ(other.updates().size(), 1u);
  EXPECT_EQ(other.updates()[0].path, follower_->output().path());
  EXPECT_EQ(other.updates()[0].digest, publisher_.digest(1));
}

TEST_F(FollowLoopTest, AnEngineThatMissesTheFinalVersionIsAnError) {
  publisher_.Publish(false, {{"final", "true"}});
  OpenFollower();
  FakeEngine engine;
  engine.FailNext("pause", Unavailable("gone"));
  options_.engines = {&engine};
  options_.until_final = true;
  EXPECT_TRUE(absl::IsUnavailable(Run()));
}

TEST_F(FollowLoopTest, StopsSoonThoughItPollsSlowly) {
  publisher_.Publish();
  OpenFollower();
  options_.poll_ms = 3'600'000;
  options_.stop = [&] { return clock_.NowNs() >= 1'000 * kMs; };
  EXPECT_TRUE(absl::IsCancelled(Run()));
  EXPECT_LE(clock_.NowNs(), 1'100 * kMs);
}

TEST_F(FollowLoopTest, WaitsUntilABucketIsThere) {
  int attempts = 0;
  EXPECT_EQ(WaitUntilThere(clock_, options_,
                           [&]() -> Status {
                             if (++attempts < 4) return NotFound("no bucket");
                             return attempts < 6 ? Unavailable("no host") : OkStatus();
                           }),
            OkStatus());
  EXPECT_EQ(attempts, 6);
  EXPECT_EQ(clock_.NowNs(), 5'000 * kMs);
  EXPECT_EQ(WaitUntilThere(clock_, options_, [] { return PermissionDenied("no"); }),
            PermissionDenied("no"));
  options_.stop = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(WaitUntilThere(clock_, options_, [] { return NotFound("no"); })));
}

}  // namespace
}  // namespace pulse
