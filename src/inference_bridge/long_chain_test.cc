// A long run: 400 versions in a row with retention at work, followed by readers of every habit.
#include <gtest/gtest.h>

#include <memory>

#include "core/clock.h"
#include "inference_bridge/follow_test_world.h"
#include "sync/retention.h"
#include "sync/verify.h"

namespace pulse {
namespace {

constexpr uint64_t kVersions = 400;
constexpr uint64_t kKept = 20;
constexpr char kOut[] = "/host/current.safetensors";
constexpr char kSecondOut[] = "/host/second.safetensors";
constexpr int64_t kMinuteNs = 60'000'000'000;

class LongChainTest : public ::testing::Test {
 protected:
  // As `pulseloco gc` every twenty versions.
  void Retain() {
    const RetentionOptions options{.chain = {}, .keep_versions = kKept, .min_age_ms = 10 * 60'000};
    const auto plan = PlanGc(*store_, clock_, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const GcResult result = ExecuteGc(*store_, *plan);
    EXPECT_TRUE(result.errors.empty()) << result.errors.front();
    removed_ += result.removed;
  }

  void ExpectAt(Follower& follower, TestMachine& machine, const std::string& path) {
    const auto result = follower.Step();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->digest, publisher_.digest(publisher_.newest()));
    EXPECT_EQ(VersionAt(machine.fs, path, publisher_), publisher_.newest());
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  TestPublisher publisher_{*store_, clock_};
  uint64_t removed_ = 0;
};

TEST_F(LongChainTest, FourHundredVersionsAreBitIdenticalForEveryReader) {
  TestMachine host(clock_), late_host(clock_), lagging_host(clock_);
  auto steady = *host.Open(*store_);
  auto second = *host.Open(*store_, host.Options(kSecondOut));  // two on one host
  auto lagging = *lagging_host.Open(*store_);
  std::unique_ptr<Follower> late;
  uint64_t from_anchor = 0;
  for (uint64_t number = 1; number <= kVersions; ++number) {
    clock_.SleepFor(kMinuteNs);
    ASSERT_NO_FATAL_FAILURE(publisher_.Publish());
    ASSERT_NO_FATAL_FAILURE(ExpectAt(*steady, host, kOut));
    if (number % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectAt(*second, host, kSecondOut));
    }
    if (number % kKept == 0) {
      ASSERT_NO_FATAL_FAILURE(Retain());
    }
    if (number == kVersions / 2) late = *late_host.Open(*store_);
    if (late) {
      ASSERT_NO_FATAL_FAILURE(ExpectAt(*late, late_host, kOut));
    }
    // Comes back when what it has is long gone from the bucket.
    if (number % 90 == 0) {
      const auto result = lagging->Step();
      ASSERT_TRUE(result.ok()) << result.status();
      from_anchor += result->from_anchor;
      EXPECT_EQ(VersionAt(lagging_host.fs, kOut, publisher_), number);
    }
  }
  EXPECT_EQ(from_anchor, 4u) << "the lagging follower was never behind retention";
  EXPECT_GT(removed_, kVersions / 2);
  const auto report = VerifyRun(*store_, host.kernels, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->problems.empty()) << report->problems.front();
  EXPECT_GE(report->versions, kKept);
  EXPECT_LT(report->versions, kVersions / 2);
}

}  // namespace
}  // namespace pulse
