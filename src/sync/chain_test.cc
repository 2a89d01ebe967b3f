#include "sync/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/clock.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"
#include "sync/byte_sources.h"
#include "sync/fetch.h"
#include "sync/publisher.h"
#include "sync/testing.h"
#include "sync/testing_follow.h"

namespace pulse {
namespace {

using testing::CountingNonces;
using testing::Follower;
using ::testing::HasSubstr;
using testing::Mutated;
using testing::RandomModel;
using testing::SchemaOf;
using testing::TestKernels;
using testing::TestModel;

const ChainOptions kChain = {.fetch_threads = 1};

// A model whose anchor weighs about 20 KB and whose deltas weigh about 1 KB each.
class ChainTest : public ::testing::Test {
 protected:
  void Publish(const std::string& pattern) {
    if (!publisher_) {
      const PublisherDeps deps{*store_, fs_, clock_, nonces_, TestKernels(), *log_};
      publisher_ = *Publisher::Open({.anchor_share = 1000}, deps);
      models_.push_back(RandomModel(SchemaOf({{"w", DType::kBF16, {10'000}}}), 1));
    }
    for (const char letter : pattern) {
      const auto published = publisher_->Publish(models_.back().view(), {.anchor = letter == 'A'});
      ASSERT_TRUE(published.ok()) << published.status();
      versions_.push_back(*published);
      models_.push_back(Mutated(models_.back(), versions_.size(), 2000));
    }
  }
  LocalVersion Local(size_t number) const {
    return {versions_[number - 1].ref.id, versions_[number - 1].manifest.target_digest};
  }
  StatusOr<Plan> PlanTo(std::optional<uint64_t> number, std::optional<LocalVersion> local) {
    auto chain = ChainReader::Open(*store_, kChain);
    return chain->PlanTo(number, local);
  }
  // "A3 d4 d5"
  static std::string Steps(const Plan& plan) {
    std::string text;
    for (const PlanStep& step : plan.steps) {
      text += fmt::format("{}{}{}", text.empty() ? "" : " ",
                          step.role == PayloadRole::kAnchor ? 'A' : 'd', step.manifest.id.number);
    }
    return text;
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  UnsyncedFilesystem fs_{clock_};
  CountingNonces nonces_{1};
  std::shared_ptr<Logger> log_ = NullLogger();
  std::unique_ptr<Publisher> publisher_;
  std::vector<Published> versions_;
  std::vector<TestModel> models_;
};

TEST_F(ChainTest, TakesTheCheapestWay) {
  Publish("AddAdd");
  EXPECT_EQ(Steps(*PlanTo(std::nullopt, std::nullopt)), "A4 d5 d6");
  EXPECT_EQ(Steps(*PlanTo(4, std::nullopt)), "A4");
  EXPECT_EQ(Steps(*PlanTo(3, std::nullopt)), "A1 d2 d3");
  EXPECT_EQ(Steps(*PlanTo(std::nullopt, Local(5))), "d6");
  EXPECT_EQ(Steps(*PlanTo(std::nullopt, Local(2))), "d3 d4 d5 d6")
      << "five deltas weigh less than an anchor";
  EXPECT_EQ(Steps(*PlanTo(5, Local(2))), "d3 d4 d5");
  const auto there = PlanTo(std::nullopt, Local(6));
  ASSERT_TRUE(there.ok());
  EXPECT_TRUE(there->from_local);
  EXPECT_TRUE(there->steps.empty());
  const auto back = PlanTo(3, Local(5));
  EXPECT_EQ(Steps(*back), "A1 d2 d3") << "deltas only lead forward";
  EXPECT_EQ(back->target, versions_[2].ref);
  EXPECT_EQ(back->target_digest, versions_[2].manifest.target_digest);
}

TEST_F(ChainTest, PrefersAnAnchorToALongerChain) {
  Publish("A" + std::string(40, 'd') + "Ad");
  EXPECT_EQ(Steps(*PlanTo(std::nullopt, Local(1))), "A42 d43");
  EXPECT_EQ(PlanTo(std::nullopt, Local(35))->steps.size(), 8u);
}

TEST_F(ChainTest, KnowsWhatIsNotThere) {
  EXPECT_EQ(PlanTo(std::nullopt, std::nullopt).status().code(), absl::StatusCode::kNotFound);
  Publish("AdAd");
  EXPECT_EQ(PlanTo(5, std::nullopt).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PlanTo(0, std::nullopt).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->Delete(ManifestKey("main", versions_[1].ref.id)).ok());
  const auto gone = PlanTo(1, std::nullopt);
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(gone.status().ToString(), HasSubstr("the oldest is 3"));
  EXPECT_EQ(Steps(*PlanTo(std::nullopt, Local(1))), "A3 d4") << "one that lags behind retention";
}

TEST_F(ChainTest, RefusesAnotherHistory) {
  Publish("Add");
  LocalVersion foreign = Local(2);
  foreign.id.nonce = std::string(32, 'e');
  EXPECT_EQ(PlanTo(std::nullopt, foreign).status().code(), absl::StatusCode::kFailedPrecondition);
  LocalVersion other_bits = Local(2);
  other_bits.digest.bytes[0] ^= 1;
  EXPECT_EQ(PlanTo(std::nullopt, other_bits).status().code(),
            absl::StatusCode::kFailedPrecondition);
  LocalVersion ahead = Local(3);
  ahead.id.number = 9;
  EXPECT_EQ(PlanTo(std::nullopt, ahead).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ChainTest, FetchesLargeObjectsWithSeveralThreads) {
  const uint64_t size = (uint64_t{20} << 20) + 3;
  Bytes bytes(size);
  Rng rng(1, {});
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  const MemorySource source(bytes);
  ASSERT_TRUE(store_->Put("big", source, PutCondition::None()).ok());
  const std::string sha = *Sha256Of(source);
  for (const int threads : {1, 3}) {
    Bytes fetched;
    const auto sink = [&](ByteView piece) {
      fetched.insert(fetched.end(), piece.begin(), piece.end());
      return OkStatus();
    };
    EXPECT_TRUE(FetchObject(*store_, "big", {size, sha, threads}, sink).ok());
    EXPECT_EQ(fetched, bytes);
    EXPECT_EQ(FetchObject(*store_, "big", {size - 1, sha, threads}, sink).code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ(FetchObject(*store_, "big", {size, std::string(64, '0'), threads}, sink).code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ(FetchObject(*store_, "none", {size, sha, threads}, sink).code(),
              absl::StatusCode::kNotFound);
  }
}

TEST(CheckNotBehind, LetsAReaderOnlyForward) {
  const VersionId seen{2, 5, std::string(32, 'a')};
  EXPECT_TRUE(CheckNotBehind(seen, seen).ok());
  EXPECT_TRUE(CheckNotBehind({2, 6, std::string(32, 'b')}, seen).ok());
  EXPECT_TRUE(CheckNotBehind({3, 6, std::string(32, 'b')}, seen).ok());
  for (const VersionId& bad :
       {VersionId{2, 4, std::string(32, 'b')}, VersionId{3, 4, std::string(32, 'b')},
        VersionId{1, 6, std::string(32, 'b')}, VersionId{2, 5, std::string(32, 'b')},
        VersionId{3, 5, std::string(32, 'a')}}) {
    EXPECT_EQ(CheckNotBehind(bad, seen).code(), absl::StatusCode::kFailedPrecondition)
        << bad.Folder();
  }
}

}  // namespace
}  // namespace pulse
