// Several ranks publish one version: bit-identical, whatever is killed at any operation of any rank
// on its files, its store or its communicator, with what was not synced lost.
#include "app/joint_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "collective/fault_injecting.h"
#include "collective/in_process.h"
#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"
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
using testing::SchemaOf;
using testing::TestKernels;
using testing::TestModel;

constexpr size_t kRanks = 3;
constexpr int64_t kTimeoutMs = 20'000;
constexpr int64_t kSecondNs = 1'000'000'000;
const ChainOptions kChain = {.fetch_threads = 1};

// Large enough for a share each; one tensor is cut between ranks.
ModelSchema SharedSchema() {
  const uint64_t mib = kDigestChunkBytes;
  return SchemaOf({{"a", DType::kBF16, {(mib + 20) / 2}},
                   {"b", DType::kF8E4M3, {7}},
                   {"c", DType::kBF16, {mib}}},
                  {{"tied", "a"}});
}

// A tensor each, for what is done thousands of times.
ModelSchema SmallSchema() {
  return SchemaOf(
      {{"a", DType::kBF16, {300}}, {"b", DType::kF8E4M3, {600}}, {"c", DType::kBF16, {300}}});
}

class UnreadableView final : public ViewSource {
 public:
  explicit UnreadableView(const ModelSchema& schema) : schema_(schema) {}
  const ModelSchema& schema() const override { return schema_; }
  StatusOr<ByteView> Read(const TensorRange&, Bytes&) const override {
    return Unavailable("not now");
  }

 private:
  const ModelSchema& schema_;
};

// What strikes one rank: its communicator, or its files and store, which share a count.
struct Strike {
  size_t rank = kRanks;
  CommunicatorFaultPlan communicator = {};
  std::vector<Fault> io = {};
};

class JointPublisherTest : public ::testing::TestWithParam<const char*> {
 protected:
  JointPublisherTest() { Use(SharedSchema(), 20'000); }
  void Use(const ModelSchema& schema, uint32_t one_in) {
    models_ = {RandomModel(schema, 1)};
    for (uint64_t i = 1; i <= 4; ++i) models_.push_back(Mutated(models_.back(), i, one_in));
  }

  // All machines anew, with versions 1 and 2 in the bucket.
  void Reset() {
    clock_ = std::make_unique<VirtualClock>();
    store_ = MakeMemoryStore(*clock_);
    machines_.clear();
    for (size_t rank = 0; rank < kRanks; ++rank) {
      machines_.push_back(std::make_unique<UnsyncedFilesystem>(*clock_));
    }
    ASSERT_TRUE(Live({}, 2).ok());
  }

  struct Counts {
    uint64_t communicator = 0, io = 0;
  };

  // One process per rank: opens, and publishes up to version `last`. The first rank's status; ranks
  // that die simply leave.
  Status Live(const Strike& strike, uint64_t last, std::vector<Counts>* counts = nullptr) {
    auto group = MakeInProcessGroup(kRanks);
    std::vector<Status> results(kRanks);
    std::vector<std::thread> threads;
    if (counts) counts->resize(kRanks);
    for (size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const bool struck = strike.rank == rank;
        FaultInjector injector(*clock_, struck ? strike.io : std::vector<Fault>());
        try {
          FaultInjectingCommunicator communicator(
              std::move((*group)[rank]), struck ? strike.communicator : CommunicatorFaultPlan(),
              real_clock_);
          results[rank] = Rank(communicator, injector, rank, last);
          if (counts) (*counts)[rank] = {communicator.operations(), injector.operations()};
        } catch (const SimulatedKill&) {
          results[rank] = Unavailable("killed");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results[0];
  }

  Status Rank(Communicator& communicator, FaultInjector& injector, size_t rank, uint64_t last) {
    const auto fs = MakeFaultInjectingFilesystem(*machines_[rank], injector);
    const auto store = MakeFaultInjectingStore(*store_, injector);
    CountingNonces nonces(++lives_);
    // Waits for other ranks are real ones: the virtual clock stands still.
    const PublisherDeps deps{*store, *fs, real_clock_, nonces, TestKernels(), *log_};
    PublisherOptions options = {.state_directory = GetParam(), .anchor_share = 100};
    if (options.state_directory.empty()) options.base = BaseKeeping::kInBucket;
    const ModelSchema& schema = models_[0].schema;
    auto opened = JointPublisher::Open(&communicator, schema, options, deps, kTimeoutMs);
    // As a command does it: nobody waits for a rank that could not open.
    PULSE_RETURN_IF_ERROR(opened.status());
    for (uint64_t at = Head(); at < last; ++at) {
      const ModelViewSource view(models_[at].view());
      if (rank == 0) {
        PULSE_RETURN_IF_ERROR((*opened)->Publish(view, {}).status());
      } else {
        PULSE_ASSIGN_OR_RETURN(const auto published, (*opened)->Join(view));
        if (!published || published->ref.id.number != at + 1) return Internal("another version");
      }
    }
    return OkStatus();
  }

  // Of the bucket when this life began.
  uint64_t Head() { return head_at_start_; }
  uint64_t ReadHeadNumber() {
    const auto head = ReadHead(*store_, "main");
    return head.ok() && head->head.version ? head->head.version->id.number : 0;
  }

  uint64_t CheckSound() {
    const auto report = VerifyRun(*store_, TestKernels(), {.chain = kChain, .progress = {}});
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->problems, IsEmpty());
    const uint64_t number = ReadHeadNumber();
    Follower follower;
    EXPECT_TRUE(follower.Follow(*store_, kChain).ok());
    EXPECT_TRUE(SameBits(follower.model, models_[number - 1]));
    return number;
  }

  // After `strike` in a life that publishes version 3, all machines but the struck one live on.
  void StrikeOnce(const Strike& strike) {
    Reset();
    head_at_start_ = 2;
    const Status told = Live(strike, 3);
    clock_->SleepFor(kSecondNs);
    machines_[strike.rank]->Crash();
    const uint64_t number = CheckSound();
    EXPECT_TRUE(number == 2 || number == 3) << number;
    if (told.ok()) {
      EXPECT_EQ(number, 3u);
    }
    head_at_start_ = number;
    const Status next = Live({}, number + 1);
    ASSERT_TRUE(next.ok()) << next << " after " << told;
    EXPECT_EQ(CheckSound(), number + 1);
    const auto newest =
        ChainReader::Open(*store_, kChain)->Load(*ReadHead(*store_, "main")->head.version);
    EXPECT_FALSE(newest->has(PayloadRole::kAnchor))
        << "the chain was broken off: " << newest->reason;
    const auto plan = PlanGc(*store_, *clock_, {.chain = kChain, .min_age_ms = 0});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(plan->spared, IsEmpty());
    EXPECT_THAT(ExecuteGc(*store_, *plan).errors, IsEmpty());
    EXPECT_THAT(VerifyRun(*store_, TestKernels(), {.chain = kChain, .progress = {}})->orphans,
                IsEmpty());
    head_at_start_ = 0;
  }

  std::unique_ptr<VirtualClock> clock_ = std::make_unique<VirtualClock>();
  RealClock real_clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(*clock_);
  std::vector<std::unique_ptr<UnsyncedFilesystem>> machines_;
  std::atomic<uint32_t> lives_ = 0;
  std::shared_ptr<Logger> log_ = NullLogger();
  std::vector<TestModel> models_;
  uint64_t head_at_start_ = 0;
};
INSTANTIATE_TEST_SUITE_P(State, JointPublisherTest, ::testing::Values("/state", ""),
                         [](const auto& state) { return *state.param ? "InFiles" : "InBucket"; });

TEST_P(JointPublisherTest, EachRankWritesItsOwnObjectsAndOneManifestNamesThem) {
  Reset();
  head_at_start_ = 2;
  ASSERT_TRUE(Live({}, 5).ok());  // three in one life, behind a restart
  EXPECT_EQ(CheckSound(), 5u);
  auto chain = ChainReader::Open(*store_, kChain);
  const auto manifests =
      chain->Walk(*ReadHead(*store_, "main")->head.version, [](const Manifest&) { return false; });
  ASSERT_EQ(manifests->size(), 5u);
  for (const Manifest& manifest : *manifests) {
    EXPECT_EQ(manifest.objects.size(), kRanks) << manifest.id.number;
    EXPECT_EQ(manifest.has(PayloadRole::kDelta), manifest.id.number > 1) << manifest.reason;
  }
}

// Before a version is published, and where a rank can't read its share.
TEST_P(JointPublisherTest, TellsWhatAllSharesHashTo) {
  Reset();
  for (const bool readable : {true, false}) {
    auto group = MakeInProcessGroup(kRanks);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const std::unique_ptr<Communicator> communicator = std::move((*group)[rank]);
        CountingNonces nonces(++lives_);
        const PublisherDeps deps{*store_, *machines_[rank], real_clock_,
                                 nonces,  TestKernels(),    *log_};
        auto opened =
            JointPublisher::Open(communicator.get(), models_[2].schema, {}, deps, kTimeoutMs);
        ASSERT_TRUE(opened.ok()) << opened.status();
        const ModelViewSource view(models_[2].view());
        const UnreadableView unreadable(models_[2].schema);
        const bool reads = readable || rank != 2;
        const ViewSource& mine = reads ? static_cast<const ViewSource&>(view) : unreadable;
        if (rank > 0) {
          const auto published = (*opened)->Join(mine);
          EXPECT_EQ(published.ok(), readable) << published.status();
          if (published.ok()) EXPECT_FALSE(published->has_value());
          return;
        }
        const auto digests = (*opened)->Digests(mine);
        ASSERT_EQ(digests.ok(), readable) << digests.status();
        if (readable) EXPECT_EQ(digests->view, ComputeDigests(view)->view);
        EXPECT_EQ((*opened)->Decline(digests.status()).ok(), readable);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(JointPublisherTest, WhatOneRankLostComesBackFromTheBucket) {
  Reset();
  machines_[2] = std::make_unique<UnsyncedFilesystem>(*clock_);
  head_at_start_ = 2;
  ASSERT_TRUE(Live({}, 3).ok());
  EXPECT_EQ(CheckSound(), 3u);
}

TEST_P(JointPublisherTest, DiesAtAnyCommunicatorOperationOfAnyRank) {
  Use(SmallSchema(), 100);
  Reset();
  std::vector<Counts> counts;
  head_at_start_ = 2;
  ASSERT_TRUE(Live({}, 3, &counts).ok());
  head_at_start_ = 0;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_GT(counts[rank].communicator, 5u);
    for (uint64_t operation = 0; operation < counts[rank].communicator; ++operation) {
      for (const auto when : {CommunicatorFault::When::kBefore, CommunicatorFault::When::kAfter}) {
        SCOPED_TRACE(fmt::format("rank {} {} operation {}", rank,
                                 when == CommunicatorFault::When::kBefore ? "before" : "after",
                                 operation));
        StrikeOnce({.rank = rank,
                    .communicator = {{.operation = operation,
                                      .when = when,
                                      .action = CommunicatorFault::Action::kCall,
                                      .call = [] { throw SimulatedKill(); }}}});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(JointPublisherTest, DiesOrFailsAtAnyFileOrStoreOperationOfAnyRank) {
  Use(SmallSchema(), 100);
  Reset();
  std::vector<Counts> counts;
  head_at_start_ = 2;
  ASSERT_TRUE(Live({}, 3, &counts).ok());
  head_at_start_ = 0;
  for (size_t rank = 0; rank < 2; ++rank) {  // the third does what the second does
    ASSERT_GT(counts[rank].io, 5u);
    for (uint64_t operation = 0; operation < counts[rank].io; ++operation) {
      for (const MakeFault& fault : {MakeFault(Fault::KillBefore), MakeFault(Fault::KillAfter),
                                     MakeFault(Fault::LoseAnswer)}) {
        SCOPED_TRACE(fmt::format("rank {} operation {}", rank, operation));
        StrikeOnce({.rank = rank, .io = {fault(operation)}});
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace pulse
