#include "sync/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/clock.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"
#include "sync/publisher.h"
#include "sync/testing.h"
#include "sync/testing_follow.h"

namespace pulse {
namespace {

using ::testing::Contains;
using testing::CountingNonces;
using testing::Follower;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Mutated;
using testing::RandomModel;
using testing::SameBits;
using testing::SchemaOf;
using ::testing::SizeIs;
using testing::TestKernels;
using testing::TestModel;
using testing::TinySchema;

const VerifyOptions kOptions = {.chain = {.fetch_threads = 1}, .progress = {}};

class VerifyTest : public ::testing::Test {
 protected:
  // `pattern`: one version per letter, 'A' with an anchor.
  void Publish(const std::string& pattern, const ModelSchema& schema) {
    const PublisherDeps deps{*store_, fs_, clock_, nonces_, TestKernels(), *log_};
    auto publisher = Publisher::Open({.anchor_share = 1000}, deps);
    ASSERT_TRUE(publisher.ok()) << publisher.status();
    TestModel model = RandomModel(schema, 1);
    for (const char letter : pattern) {
      const auto published = (*publisher)->Publish(model.view(), {.anchor = letter == 'A'});
      ASSERT_TRUE(published.ok()) << published.status();
      versions_.push_back(published->manifest);
      models_.push_back(model);
      model = Mutated(model, versions_.size(), 100);
    }
  }
  VerifyReport Verify() {
    auto report = VerifyRun(*store_, TestKernels(), kOptions);
    EXPECT_TRUE(report.ok()) << report.status();
    VerifyOptions several = kOptions;
    several.threads = 3;
    const auto same = VerifyRun(*store_, TestKernels(), several);
    EXPECT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(same->problems, report->problems);
    EXPECT_EQ(same->versions, report->versions);
    return *std::move(report);
  }
  std::vector<ObjectInfo> Objects() { return ListAll(*store_, "", false)->objects; }
  Bytes Get(const std::string& key) { return store_->Get(key, 1 << 24)->bytes; }
  void Put(const std::string& key, const Bytes& bytes) {
    ASSERT_TRUE(store_->Put(key, MemorySource(bytes), PutCondition::None()).ok());
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  UnsyncedFilesystem fs_{clock_};
  CountingNonces nonces_{1};
  std::shared_ptr<Logger> log_ = NullLogger();
  std::vector<Manifest> versions_;
  std::vector<TestModel> models_;
};

TEST_F(VerifyTest, FindsNothingWrongWithASoundRun) {
  Publish("AddAdd", TinySchema());
  const VerifyReport report = Verify();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(report.orphans, IsEmpty());
  EXPECT_EQ(report.versions, 6u);
  EXPECT_EQ(report.objects, 7u);
  EXPECT_THAT(*ListRuns(*store_), ::testing::ElementsAre("main"));
}

TEST_F(VerifyTest, ListsOrphansWithoutCallingThemProblems) {
  Publish("Ad", TinySchema());
  const std::string orphan =
      ObjectKey("main", {1, 2, std::string(32, 'f')}, "delta-00000.safetensors");
  Put(orphan, Bytes(3));
  const VerifyReport report = Verify();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(report.orphans, ::testing::ElementsAre(orphan));
}

TEST_F(VerifyTest, NamesTheVersionsThatADamagedObjectTakesAlong) {
  Publish("AddAd", TinySchema());
  Put(ObjectKey("main", versions_[1].id, "delta-00000.safetensors"), Bytes(10));
  const VerifyReport report = Verify();
  EXPECT_THAT(report.problems, Contains(HasSubstr("version 2")));
  EXPECT_THAT(report.problems, Contains(HasSubstr("version 3 can't be rebuilt")));
  EXPECT_THAT(report.problems, ::testing::Not(Contains(HasSubstr("version 5"))));
}

TEST_F(VerifyTest, ALostHeadOrObjectIsAProblem) {
  EXPECT_THAT(Verify().problems, SizeIs(1));
  Publish("Ad", TinySchema());
  for (const ObjectInfo& object : Objects()) {
    const Bytes bytes = Get(object.key);
    ASSERT_TRUE(store_->Delete(object.key).ok());
    EXPECT_THAT(Verify().problems, ::testing::Not(IsEmpty())) << object.key;
    Put(object.key, bytes);
  }
  EXPECT_THAT(Verify().problems, IsEmpty());
}

TEST_F(VerifyTest, SaysWhatLiesBesideTheRuns) {
  Publish("A", TinySchema());
  EXPECT_THAT(*ListBesideRuns(*store_), IsEmpty());
  for (const char* key : {"trl-v1/main/a", "trl-v1/main/b", "readme.txt"}) Put(key, Bytes(3));
  EXPECT_THAT(*ListBesideRuns(*store_), ::testing::ElementsAre("trl-v1/", "readme.txt"));
  EXPECT_THAT(Verify().problems, IsEmpty());
}

TEST_F(VerifyTest, ANewcomerAfterRetentionStillVerifies) {
  Publish("AdAd", TinySchema());
  for (const ObjectInfo& object : Objects()) {
    if (object.key.find("/1.1.") != std::string::npos ||
        object.key.find("/1.2.") != std::string::npos) {
      ASSERT_TRUE(store_->Delete(object.key).ok());
    }
  }
  const VerifyReport report = Verify();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.versions, 2u);
}

// Every single flipped bit, every cut and every swap of two objects in a small chain: verify finds
// it, and a reader either refuses or gets the right bits (when it did not need that object).
class DamageTest : public VerifyTest {
 protected:
  DamageTest() { Publish("Ad", SchemaOf({{"a", DType::kBF16, {100}}})); }

  void ExpectFound(const std::string& what) {
    EXPECT_THAT(Verify().problems, ::testing::Not(IsEmpty())) << what;
    Follower follower;
    if (!follower.Follow(*store_, kOptions.chain).ok()) return;
    EXPECT_TRUE(SameBits(follower.model, models_.back())) << what;
  }
};

TEST_F(DamageTest, EveryFlippedBitIsFound) {
  size_t bits = 0;
  for (const ObjectInfo& object : Objects()) {
    const Bytes good = Get(object.key);
    for (size_t bit = 0; bit < good.size() * 8; ++bit, ++bits) {
      Bytes bad = good;
      bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ (1u << (bit % 8)));
      Put(object.key, bad);
      ExpectFound(fmt::format("{} bit {}", object.key, bit));
    }
    Put(object.key, good);
  }
  EXPECT_GT(bits, 15'000u);
  EXPECT_THAT(Verify().problems, IsEmpty());
}

TEST_F(DamageTest, EveryTruncationAndEveryAddedByteIsFound) {
  for (const ObjectInfo& object : Objects()) {
    const Bytes good = Get(object.key);
    for (size_t size = 0; size < good.size(); ++size) {
      Put(object.key, Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(size)));
      ExpectFound(fmt::format("{} cut to {}", object.key, size));
    }
    Bytes longer = good;
    longer.push_back(' ');
    Put(object.key, longer);
    ExpectFound(object.key + " with a byte behind");
    Put(object.key, good);
  }
}

TEST_F(DamageTest, EveryPairOfSwappedObjectsIsFound) {
  Publish("dAd", models_[0].schema);
  const auto objects = Objects();
  for (const ObjectInfo& a : objects) {
    for (const ObjectInfo& b : objects) {
      if (a.key >= b.key) continue;
      const Bytes bytes_a = Get(a.key);
      const Bytes bytes_b = Get(b.key);
      Put(a.key, bytes_b);
      Put(b.key, bytes_a);
      ExpectFound(a.key + " swapped with " + b.key);
      Put(a.key, bytes_a);
      Put(b.key, bytes_b);
    }
  }
}

// An old head put back (a rollback) looks sound, as the header says; a reader that has seen more
// notices.
TEST_F(DamageTest, ARolledBackHeadIsNoticedByAReaderThatHasSeenMore) {
  Publish("A", models_[0].schema);
  Follower follower;
  ASSERT_TRUE(follower.Follow(*store_, kOptions.chain).ok());
  Head old = ReadHead(*store_, "main")->head;
  old.version = versions_[2].parent;
  const std::string text = SerializeHead(old);
  Put(HeadKey("main"), Bytes(text.begin(), text.end()));
  EXPECT_THAT(Verify().problems, IsEmpty());
  EXPECT_EQ(follower.Follow(*store_, kOptions.chain).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(SameBits(follower.model, models_[2]));
}

}  // namespace
}  // namespace pulse
