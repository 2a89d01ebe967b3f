#include "sync/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/forwarding_store.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"
#include "sync/publisher.h"
#include "sync/testing.h"
#include "sync/testing_follow.h"
#include "sync/verify.h"

namespace pulse {
namespace {

using testing::CountingNonces;
using testing::Follower;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Mutated;
using testing::RandomModel;
using testing::SameBits;
using testing::TestKernels;
using testing::TestModel;
using testing::TinySchema;

constexpr int64_t kMinute = 60'000;
const ChainOptions kChain = {.fetch_threads = 1};

class RetentionTest : public ::testing::Test {
 protected:
  RetentionTest() { publisher_ = Open(); }
  std::unique_ptr<Publisher> Open() {
    const PublisherDeps deps{*store_, fs_, clock_, nonces_, TestKernels(), *log_};
    return *Publisher::Open({.anchor_share = 1000}, deps);
  }
  // A minute passes after each version.
  void Publish(const std::string& pattern) {
    for (const char letter : pattern) {
      const auto published = publisher_->Publish(model_.view(), {.anchor = letter == 'A'});
      ASSERT_TRUE(published.ok()) << published.status();
      versions_.push_back(published->ref.id);
      last_ = model_;
      model_ = Mutated(model_, versions_.size(), 100);
      clock_.SleepFor(kMinute * 1'000'000);
    }
  }
  void PutAt(const VersionId& id, const std::string& name) {
    ASSERT_TRUE(
        store_
            ->Put(ObjectKey("main", id, name), MemorySource(AsBytes("junk")), PutCondition::None())
            .ok());
  }
  StatusOr<GcPlan> Plan(uint64_t keep, int64_t min_age_ms = 0, int64_t keep_age_ms = 0) {
    return PlanGc(*store_, clock_,
                  {.chain = kChain,
                   .keep_versions = keep,
                   .keep_age_ms = keep_age_ms,
                   .min_age_ms = min_age_ms});
  }
  std::unique_ptr<Store> Copy() {
    auto copy = MakeMemoryStore(clock_);
    const auto listing = ListAll(*store_, "", false);
    for (const ObjectInfo& object : listing->objects) {
      const Bytes bytes = store_->Get(object.key, 1 << 20)->bytes;
      EXPECT_TRUE(copy->Put(object.key, MemorySource(bytes), PutCondition::None()).ok());
    }
    return copy;
  }
  // The numbers of the versions whose manifests are still there, in order.
  std::string Left() {
    std::string left;
    const auto listing = ListAll(*store_, RunPrefix("main"), false);
    std::vector<uint64_t> numbers;
    for (const ObjectInfo& object : listing->objects) {
      if (!object.key.ends_with("manifest.json")) continue;
      const std::string rest = object.key.substr(RunPrefix("main").size());
      numbers.push_back(VersionId::FromFolder(rest.substr(0, rest.find('/')))->number);
    }
    std::ranges::sort(numbers);
    for (const uint64_t number : numbers) left += fmt::format("{} ", number);
    return left;
  }
  VerifyReport Verify() {
    return *VerifyRun(*store_, TestKernels(), {.chain = kChain, .progress = {}});
  }
  void ExpectSound() {
    EXPECT_THAT(Verify().problems, IsEmpty());
    Follower follower;
    ASSERT_TRUE(follower.Follow(*store_, kChain).ok());
    EXPECT_TRUE(SameBits(follower.model, last_));
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  UnsyncedFilesystem fs_{clock_};
  CountingNonces nonces_{1};
  std::shared_ptr<Logger> log_ = NullLogger();
  std::unique_ptr<Publisher> publisher_;
  TestModel model_ = RandomModel(TinySchema(), 1);
  TestModel last_;
  std::vector<VersionId> versions_;
};

TEST_F(RetentionTest, KeepsTheNewestAndWhatTheyAreRebuiltFrom) {
  Publish("AddAddAdd");
  for (const auto& [keep, left] :
       std::vector<std::pair<uint64_t, std::string>>{{100, "1 2 3 4 5 6 7 8 9 "},
                                                     {8, "1 2 3 4 5 6 7 8 9 "},
                                                     {6, "4 5 6 7 8 9 "},
                                                     {4, "4 5 6 7 8 9 "},
                                                     {1, "7 8 9 "}}) {
    const auto plan = Plan(keep);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const GcResult result = ExecuteGc(*store_, *plan);
    EXPECT_THAT(result.errors, IsEmpty());
    EXPECT_EQ(result.bytes, plan->bytes);
    EXPECT_EQ(Left(), left) << keep;
    EXPECT_THAT(Verify().orphans, IsEmpty());
    ExpectSound();
  }
  EXPECT_TRUE(Plan(1)->remove.empty()) << "nothing more to do";
  EXPECT_EQ(Plan(0)->oldest_kept, 7u) << "the head's version is always kept";
}

TEST_F(RetentionTest, KeepsByAgeToo) {
  Publish("AAAAA");
  EXPECT_EQ(Plan(1, 0, 3 * kMinute + 1)->kept_versions, 3u);
  EXPECT_EQ(Plan(1, 0, 0)->kept_versions, 1u);
}

TEST_F(RetentionTest, ADryRunTouchesNothingAndSaysWhy) {
  Publish("AA");
  const auto plan = Plan(1);
  ASSERT_EQ(plan->remove.size(), 2u);
  EXPECT_TRUE(plan->remove[0].manifest) << "the manifest goes first";
  EXPECT_THAT(plan->remove[0].why, HasSubstr("version 1 is not kept"));
  EXPECT_EQ(Left(), "1 2 ");
}

TEST_F(RetentionTest, TheYoungAreSparedWithAllThatTheyNeed) {
  Publish("AdAdA");
  // Versions 4 and 5 are younger than 2.5 minutes; 4 is rebuilt from 3.
  const auto plan = Plan(1, 2 * kMinute + kMinute / 2);
  EXPECT_EQ(plan->oldest_kept, 3u);
  ExecuteGc(*store_, *plan);
  EXPECT_EQ(Left(), "3 4 5 ");
  ExpectSound();
}

TEST_F(RetentionTest, RemovesWhatLosersLeftButNotAnAttemptInFlight) {
  Publish("Ad");
  auto successor = Open();  // epoch 2
  const std::string nonce(32, 'e');
  PutAt({1, 2, nonce}, "delta-00000.safetensors");  // lost to version 2
  PutAt({1, 3, nonce}, "delta-00000.safetensors");  // of a fenced epoch
  PutAt({1, 9, nonce}, "manifest.json");            // likewise, far ahead
  PutAt({2, 3, nonce}, "delta-00000.safetensors");  // in flight
  PutAt({2, 2, nonce}, "delta-00000.safetensors");  // its number is taken
  PutAt({3, 1, nonce}, "delta-00000.safetensors");  // of an epoch that is not yet: leave it
  PutAt(versions_[1], "stray.bin");                 // in a kept version's folder
  ASSERT_TRUE(
      store_->Put("runs/main/notes.txt", MemorySource(AsBytes("mine")), PutCondition::None()).ok());
  const auto young = Plan(10, kMinute);
  EXPECT_THAT(young->remove, IsEmpty());
  EXPECT_EQ(young->spared.size(), 7u);
  clock_.SleepFor(2 * kMinute * 1'000'000);
  const auto plan = Plan(10, kMinute);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->remove.size(), 5u);
  ASSERT_EQ(plan->spared.size(), 2u);
  EXPECT_THAT(plan->spared[0].why, HasSubstr("in flight"));
  ExecuteGc(*store_, *plan);
  EXPECT_TRUE(store_->Stat(ObjectKey("main", {2, 3, nonce}, "delta-00000.safetensors")).ok());
  EXPECT_TRUE(store_->Stat("runs/main/notes.txt").ok());
  ExpectSound();
  ASSERT_TRUE(successor->Publish(model_.view(), {}).ok());
}

TEST_F(RetentionTest, RefusesToGuessWhenTheChainIsDamaged) {
  Publish("AdA");
  const std::string key = ManifestKey("main", versions_[1]);
  const Bytes good = store_->Get(key, 1 << 20)->bytes;
  Bytes bad = good;
  bad[10] ^= 1;
  ASSERT_TRUE(store_->Put(key, MemorySource(bad), PutCondition::None()).ok());
  EXPECT_EQ(Plan(1).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(store_->Delete(ManifestKey("main", versions_[2])).ok());
  EXPECT_EQ(Plan(1).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(store_->Delete(HeadKey("main")).ok());
  EXPECT_EQ(Plan(1).status().code(), absl::StatusCode::kNotFound);
}

// Deletes nothing that contains `stubborn`, and dies after `lives` deletes.
class GrudgingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::string stubborn = "\n";
  size_t lives = 1'000'000;
  Status Delete(std::string_view key) override {
    if (key.find(stubborn) != std::string_view::npos) return PermissionDenied("{}: no", key);
    if (lives == 0) return Unavailable("dead");
    --lives;
    return inner_.Delete(key);
  }
};

TEST_F(RetentionTest, WhateverCantBeRemovedTheChainStaysSound) {
  Publish("AddAddA");
  const auto plan = Plan(1);
  ASSERT_GT(plan->remove.size(), 8u);
  for (const GcItem& item : plan->remove) {
    const auto copy = Copy();
    GrudgingStore grudging(*copy);
    grudging.stubborn = item.key;
    const GcResult result = ExecuteGc(grudging, *plan);
    EXPECT_EQ(result.errors.size(), 1u);
    const auto report = VerifyRun(*copy, TestKernels(), {.chain = kChain, .progress = {}});
    EXPECT_THAT(report->problems, IsEmpty()) << item.key;
  }
}

TEST_F(RetentionTest, ACrashAnywhereLeavesOnlyOrphansThatTheNextRunRemoves) {
  Publish("AddAddA");
  const auto whole = Plan(1);
  for (size_t deletes = 0; deletes < whole->remove.size(); ++deletes) {
    const auto copy = Copy();
    GrudgingStore dying(*copy);
    dying.lives = deletes;
    const RetentionOptions options = {.chain = kChain, .keep_versions = 1, .min_age_ms = 0};
    ExecuteGc(dying, *PlanGc(dying, clock_, options));
    EXPECT_THAT(VerifyRun(*copy, TestKernels(), {.chain = kChain, .progress = {}})->problems,
                IsEmpty());
    ExecuteGc(*copy, *PlanGc(*copy, clock_, options));
    const auto report = VerifyRun(*copy, TestKernels(), {.chain = kChain, .progress = {}});
    EXPECT_THAT(report->problems, IsEmpty());
    EXPECT_THAT(report->orphans, IsEmpty());
    EXPECT_EQ(report->versions, 1u);
  }
}

TEST_F(RetentionTest, AReaderThatLosesTheRacePlansAgain) {
  Publish("Ad");
  auto chain = ChainReader::Open(*store_, kChain);
  const auto plan = chain->PlanTo(std::nullopt, std::nullopt);
  ASSERT_TRUE(plan.ok());
  Publish("A");
  ExecuteGc(*store_, *Plan(1));
  const auto fetched = chain->Fetch(plan->steps[0].manifest, plan->steps[0].manifest.objects[0],
                                    [](ByteView) { return OkStatus(); });
  EXPECT_EQ(fetched.code(), absl::StatusCode::kNotFound);
  Follower follower;
  EXPECT_TRUE(follower.Follow(*store_, kChain).ok());
  EXPECT_TRUE(SameBits(follower.model, last_));
}

}  // namespace
}  // namespace pulse
