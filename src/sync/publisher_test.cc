#include "sync/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "core/clock.h"
#include "store/fault_injecting_store.h"
#include "store/forwarding_store.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"
#include "sync/restore_base.h"
#include "sync/testing.h"
#include "sync/testing_follow.h"

namespace pulse {
namespace {

using testing::CountingNonces;
using testing::Follower;
using ::testing::HasSubstr;
using testing::Mutated;
using testing::RandomModel;
using testing::SameBits;
using testing::SchemaOf;
using testing::TestKernels;
using testing::TestModel;
using testing::TinySchema;

const ChainOptions kChain = {.fetch_threads = 1};

class PublisherTest : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<Publisher>> Open(PublisherOptions options) {
    return Publisher::Open(std::move(options), Deps());
  }
  PublisherDeps Deps() { return {*store_, fs_, clock_, nonces_, TestKernels(), *log_}; }
  std::unique_ptr<Publisher> MustOpen(PublisherOptions options) {
    auto publisher = Open(std::move(options));
    EXPECT_TRUE(publisher.ok()) << publisher.status();
    return *std::move(publisher);
  }
  StatusOr<Published> Publish(Publisher& publisher, const TestModel& model, bool anchor = false) {
    return publisher.Publish(model.view(), {.anchor = anchor});
  }
  std::vector<DirectoryEntry> StateFiles() {
    auto entries = fs_.List("/state");
    EXPECT_TRUE(entries.ok());
    return entries.ok() ? *std::move(entries) : std::vector<DirectoryEntry>();
  }
  size_t BaseFiles() {
    size_t count = 0;
    for (const auto& entry : StateFiles()) count += entry.name.starts_with("base-");
    return count;
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  UnsyncedFilesystem fs_{clock_};
  CountingNonces nonces_{1};
  std::shared_ptr<Logger> log_ = NullLogger();
};

// With a state folder and without.
struct Keeping {
  const char* name;
  const char* directory;
  BaseKeeping base;
  friend void PrintTo(const Keeping& keeping, std::ostream* out) { *out << keeping.name; }
};
class EitherPublisherTest : public PublisherTest, public ::testing::WithParamInterface<Keeping> {
 protected:
  PublisherOptions Options() const {
    return {.state_directory = GetParam().directory, .base = GetParam().base, .anchor_share = 100};
  }
};
INSTANTIATE_TEST_SUITE_P(State, EitherPublisherTest,
                         ::testing::Values(Keeping{"InFiles", "/state", BaseKeeping::kCopy},
                                           Keeping{"InMemory", "", BaseKeeping::kCopy},
                                           Keeping{"InBucket", "", BaseKeeping::kInBucket}),
                         [](const auto& keeping) { return keeping.param.name; });

TEST_P(EitherPublisherTest, SixtyVersionsAreBitIdenticalForEarlyAndLateReaders) {
  PublisherOptions options = Options();
  options.anchor_share = 10;  // headers outweigh so small a model
  auto publisher = MustOpen(options);
  Follower steady;
  std::vector<TestModel> history = {RandomModel(TinySchema(), 1)};
  size_t anchors = 0;
  for (uint64_t version = 1; version <= 60; ++version) {
    const auto published = Publish(*publisher, history.back());
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(published->ref.id.number, version);
    anchors += published->manifest.has(PayloadRole::kAnchor);
    ASSERT_TRUE(steady.Follow(*store_, kChain).ok());
    EXPECT_TRUE(SameBits(steady.model, history.back()));
    EXPECT_EQ(steady.last_plan.from_local, version > 1);
    history.push_back(Mutated(history.back(), version, 100));
  }
  EXPECT_GT(anchors, 3u) << "the cost policy never came to bear";
  EXPECT_LT(anchors, 30u);
  for (uint64_t version = 1; version <= 60; ++version) {
    Follower late;
    ASSERT_TRUE(late.Follow(*store_, kChain, version).ok()) << version;
    EXPECT_TRUE(SameBits(late.model, history[version - 1])) << version;
  }
}

TEST_P(EitherPublisherTest, ARestartContinuesTheChain) {
  TestModel model = RandomModel(TinySchema(), 1);
  for (uint64_t version = 1; version <= 6; ++version) {
    auto publisher = MustOpen(Options());
    const auto published = Publish(*publisher, model);
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(published->manifest.has(PayloadRole::kDelta), version > 1);
    EXPECT_EQ(published->manifest.has(PayloadRole::kAnchor), version == 1);
    EXPECT_EQ(publisher->epoch(), *GetParam().directory ? 1 : version)
        << "only a state folder keeps the epoch";
    model = Mutated(model, version, 50);
  }
}

TEST_P(EitherPublisherTest, NoChangesStillMakeAVersion) {
  auto publisher = MustOpen(Options());
  const TestModel model = RandomModel(TinySchema(), 1);
  ASSERT_TRUE(Publish(*publisher, model).ok());
  for (int i = 0; i < 3; ++i) {
    const auto published = Publish(*publisher, model);
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(published->manifest.changed, 0u);
  }
  const TestModel next = Mutated(model, 1, 50);
  ASSERT_TRUE(Publish(*publisher, next).ok());
  Follower follower;
  ASSERT_TRUE(follower.Follow(*store_, kChain).ok());
  EXPECT_TRUE(SameBits(follower.model, next));
  EXPECT_EQ(follower.at->id.number, 5u);
}

TEST_P(EitherPublisherTest, AChangedSchemaNeedsAnAnchorAndSaysSo) {
  auto publisher = MustOpen(Options());
  ASSERT_TRUE(Publish(*publisher, RandomModel(TinySchema(), 1)).ok());
  const TestModel other = RandomModel(SchemaOf({{"embed", DType::kBF16, {16, 32}}}), 1);
  const auto refused = Publish(*publisher, other);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("\"embed\""));
  EXPECT_THAT(refused.status().ToString(), HasSubstr("anchor"));
  const auto published = Publish(*publisher, other, /*anchor=*/true);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_FALSE(published->manifest.has(PayloadRole::kDelta));
  ASSERT_TRUE(Publish(*publisher, Mutated(other, 1, 50)).ok());
  Follower follower;
  ASSERT_TRUE(follower.Follow(*store_, kChain).ok());
}

TEST_P(EitherPublisherTest, AnAnchorOnRequestStandsBesideItsDelta) {
  auto publisher = MustOpen(Options());
  TestModel model = RandomModel(TinySchema(), 1);
  ASSERT_TRUE(Publish(*publisher, model).ok());
  Follower reader;
  ASSERT_TRUE(reader.Follow(*store_, kChain).ok());
  model = Mutated(model, 1, 50);
  const auto published = Publish(*publisher, model, /*anchor=*/true);
  ASSERT_TRUE(published.ok());
  EXPECT_TRUE(published->manifest.has(PayloadRole::kDelta));
  EXPECT_TRUE(published->manifest.has(PayloadRole::kAnchor));
  EXPECT_EQ(published->manifest.reason, "asked");
  EXPECT_EQ(published->manifest.chain_length, 0u);
  ASSERT_TRUE(reader.Follow(*store_, kChain).ok());
  EXPECT_TRUE(reader.last_plan.from_local);
}

TEST_F(PublisherTest, AnchorsComeByLengthToo) {
  auto publisher = MustOpen({.anchor_share = 100, .max_chain_length = 3});
  TestModel model = RandomModel(TinySchema(), 1);
  std::string pattern;
  for (uint64_t i = 0; i < 9; ++i) {
    const auto published = Publish(*publisher, model);
    pattern += published->manifest.has(PayloadRole::kAnchor) ? 'A' : 'd';
    model = Mutated(model, i, 100);
  }
  EXPECT_EQ(pattern, "AdddAdddA");
}

TEST_F(PublisherTest, AStateFolderOfAnotherRunIsRefused) {
  MustOpen({.state_directory = "/state"});
  EXPECT_EQ(Open({.run = "other", .state_directory = "/state"}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(PublisherTest, ATakeoverFencesTheOldPublisherOff) {
  TestModel model = RandomModel(TinySchema(), 1);
  auto old_one = MustOpen({.state_directory = "/state"});
  ASSERT_TRUE(Publish(*old_one, model).ok());
  auto new_one = MustOpen({.state_directory = "/other"});
  EXPECT_EQ(new_one->epoch(), 2u);
  const TestModel next = Mutated(model, 1, 50);
  const auto refused = Publish(*old_one, next);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("another publisher"));
  EXPECT_EQ(Publish(*old_one, next).status().code(), absl::StatusCode::kAborted) << "for good";
  const auto published = Publish(*new_one, next);
  ASSERT_TRUE(published.ok());
  EXPECT_EQ(published->ref.id.number, 2u);
  EXPECT_TRUE(published->manifest.has(PayloadRole::kDelta)) << "its base came from the bucket";
}

TEST_F(PublisherTest, ARewoundPublisherCannotMoveTheHeadBack) {
  TestModel model = RandomModel(TinySchema(), 1);
  auto publisher = MustOpen({.state_directory = "/state"});
  ASSERT_TRUE(Publish(*publisher, model).ok());
  // A copy of the state as of version 1, used by another process later.
  ASSERT_TRUE(fs_.CreateDirectories("/copy").ok());
  for (const auto& entry : StateFiles()) {
    const auto bytes = ReadFile(fs_, "/state/" + entry.name, 1 << 20);
    ASSERT_TRUE(WriteFileAtomically(fs_, "/copy/" + entry.name, *bytes).ok());
  }
  auto clone = MustOpen({.state_directory = "/copy"});
  for (uint64_t i = 0; i < 3; ++i) {
    model = Mutated(model, i, 50);
    ASSERT_TRUE(Publish(*publisher, model).ok());
  }
  // The running clone loses; a fresh start from the copy goes on from the head.
  EXPECT_EQ(Publish(*clone, model).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReadHead(*store_, "main")->head.version->id.number, 4u);
  clone.reset();
  clone = MustOpen({.state_directory = "/copy"});
  const auto published = Publish(*clone, Mutated(model, 9, 50));
  ASSERT_TRUE(published.ok());
  EXPECT_EQ(published->ref.id.number, 5u);
  EXPECT_EQ(Publish(*publisher, model).status().code(), absl::StatusCode::kAborted);
}

TEST_F(PublisherTest, ARottenBaseIsFoundBeforeAnythingIsBuiltOnIt) {
  TestModel model = RandomModel(TinySchema(), 1);
  {
    auto publisher = MustOpen({.state_directory = "/state"});
    ASSERT_TRUE(Publish(*publisher, model).ok());
  }
  for (const auto& entry : StateFiles()) {
    if (!entry.name.starts_with("base-")) continue;
    Bytes bytes = *ReadFile(fs_, "/state/" + entry.name, 1 << 20);
    bytes.back() ^= 1;
    ASSERT_TRUE(WriteFileAtomically(fs_, "/state/" + entry.name, bytes).ok());
  }
  auto publisher = MustOpen({.state_directory = "/state"});
  model = Mutated(model, 1, 50);
  const auto published = Publish(*publisher, model);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->manifest.reason, "base lost");
  EXPECT_FALSE(published->manifest.has(PayloadRole::kDelta));
  Follower follower;
  ASSERT_TRUE(follower.Follow(*store_, kChain).ok());
  EXPECT_TRUE(SameBits(follower.model, model));
}

TEST_P(EitherPublisherTest, ADamagedTipIsHealedByAnAnchor) {
  if (*GetParam().directory) return;  // its base does not come from the bucket
  TestModel model = RandomModel(TinySchema(), 1);
  VersionId last;
  {
    auto publisher = MustOpen(Options());
    ASSERT_TRUE(Publish(*publisher, model).ok());
    model = Mutated(model, 1, 50);
    last = Publish(*publisher, model)->ref.id;
  }
  for (const std::string& name :
       {std::string("manifest.json"), std::string("delta-00000.safetensors")}) {
    const std::string key = ObjectKey("main", last, name);
    Bytes bytes = store_->Get(key, 1 << 20)->bytes;
    bytes[bytes.size() / 2] ^= 1;
    ASSERT_TRUE(store_->Put(key, MemorySource(bytes), PutCondition::None()).ok());
    auto publisher = MustOpen(Options());
    const auto published = Publish(*publisher, model);
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(published->manifest.reason, "base lost") << name;
    Follower follower;
    ASSERT_TRUE(follower.Follow(*store_, kChain).ok());
    EXPECT_TRUE(SameBits(follower.model, model));
    model = Mutated(model, 2, 50);
    last = Publish(*publisher, model)->ref.id;
  }
}

TEST_F(PublisherTest, OnlyTheCurrentBaseStaysInTheStateFolder) {
  auto publisher = MustOpen({.state_directory = "/state"});
  TestModel model = RandomModel(TinySchema(), 1);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(Publish(*publisher, model).ok());
    EXPECT_EQ(BaseFiles(), 1u);
    model = Mutated(model, i, 50);
  }
}

TEST_F(PublisherTest, TheStateFolderIsForOneProcess) {
  RealClock clock;
  auto publisher = MustOpen({.state_directory = "/state"});
  PublisherDeps deps{*store_, fs_, clock, nonces_, TestKernels(), *log_};
  const auto second = Publisher::Open({.state_directory = "/state", .lock_timeout_ms = 0}, deps);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(PublisherTest, AResumedTrainerFindsWhatItPublishedBefore) {
  auto publisher = MustOpen({});
  std::vector<TestModel> models = {RandomModel(TinySchema(), 1)};
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(Publish(*publisher, models.back()).ok());
    models.push_back(Mutated(models.back(), i, 50));
  }
  auto resumed = MustOpen({});
  for (uint64_t number = 1; number <= 5; ++number) {
    const auto found = resumed->Find(number);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->ref.id.number, number);
    EXPECT_EQ(found->manifest.target_digest, ViewDigest(models[number - 1].view()));
    EXPECT_EQ(found->ref.manifest_sha256.size(), 64u);
  }
  EXPECT_EQ(resumed->Find(6).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PublisherTest, SignedVersionsSatisfyAReaderThatInsists) {
  const auto key = SigningKey::FromPem(
      "-----BEGIN PRIVATE KEY-----\n"
      "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
      "-----END PRIVATE KEY-----\n");
  ChainOptions insisting = kChain;
  insisting.trusted_key = (*key)->public_key_hex();
  TestModel model = RandomModel(TinySchema(), 1);
  auto publisher = MustOpen({.signing_key = *key});
  ASSERT_TRUE(Publish(*publisher, model).ok());
  Follower follower;
  EXPECT_TRUE(follower.Follow(*store_, insisting).ok());
  auto unsigned_one = MustOpen({});
  ASSERT_TRUE(Publish(*unsigned_one, Mutated(model, 1, 50)).ok());
  EXPECT_EQ(follower.Follow(*store_, insisting).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(SameBits(follower.model, model));
}

// Takes a second of the clock for every put, so that the link has a rate.
class SlowPuts final : public ForwardingStore {
 public:
  SlowPuts(Store& store, VirtualClock& clock) : ForwardingStore(store), clock_(clock) {}
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    clock_.SleepFor(1'000'000'000);
    return ForwardingStore::Put(key, source, condition);
  }

 private:
  VirtualClock& clock_;
};

TEST_F(PublisherTest, PublishesInTheCodecThatItIsTold) {
  TestModel model = RandomModel(SchemaOf({{"w", DType::kBF16, {4096}}}), 1);
  std::string expected = "";
  for (const CodecSetting codec :
       {CodecSetting::kFast, CodecSetting::kFast, CodecSetting::kSmall, CodecSetting::kAuto}) {
    auto publisher = MustOpen({.codec = codec, .anchor_share = 100});
    const auto published = Publish(*publisher, model);
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(published->manifest.codec, expected);
    EXPECT_EQ(published->manifest.metadata.contains(kCodecReasonKey), codec == CodecSetting::kAuto);
    expected = expected.empty() ? "fast" : "small";
    model = Mutated(model, 7, 30);
  }
  Follower follower;
  ASSERT_TRUE(follower.Follow(*store_, kChain).ok());
}

TEST_F(PublisherTest, LearnsTheLinkFromAnUploadThatIsLongEnough) {
  SlowPuts slow(*store_, clock_);
  const TestModel model = RandomModel(SchemaOf({{"w", DType::kBF16, {1 << 20}}}), 1);
  PublisherDeps deps = Deps();
  auto publisher =
      Publisher::Open({}, {slow, deps.fs, deps.clock, deps.nonces, deps.kernels, deps.log});
  ASSERT_TRUE(publisher.ok());
  ASSERT_TRUE(Publish(**publisher, model).ok());  // an anchor of 2 MB in a second
  const auto published = Publish(**publisher, Mutated(model, 1, 1000));
  ASSERT_TRUE(published.ok()) << published.status();
  // This clock stands still while codecs work, so their times are what is missing.
  EXPECT_EQ(published->manifest.metadata.at(kCodecReasonKey),
            "auto: small, as the codecs are not measured");
}

TEST_F(PublisherTest, RefusesMetadataThatIsNotText) {
  auto publisher = MustOpen({});
  const TestModel model = RandomModel(TinySchema(), 1);
  EXPECT_EQ(publisher->Publish(model.view(), {.metadata = {{"k", "\xff"}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto published = publisher->Publish(model.view(), {.metadata = {{"step", "7 \xc3\xa9"}}});
  ASSERT_TRUE(published.ok());
  EXPECT_EQ(published->manifest.metadata.at("step"), "7 \xc3\xa9");
}

TEST_F(PublisherTest, AFencedPublisherDoesNotSlipIntoTheNewEpochAfterAnError) {
  FaultInjector injector(clock_, {Fault::FailBefore(8), Fault::FailBefore(9)});
  const auto failing = MakeFaultInjectingStore(*store_, injector);
  const PublisherDeps deps{*failing, fs_, clock_, nonces_, TestKernels(), *log_};
  auto old_one = Publisher::Open({}, deps);
  ASSERT_TRUE(old_one.ok());
  TestModel model = RandomModel(TinySchema(), 1);
  ASSERT_FALSE(Publish(**old_one, model).ok()) << injector.Log();
  // The swap got no answer and neither did the question what became of it: it will have to ask
  // again.
  ASSERT_THAT(injector.Log(), HasSubstr("9 store.Get runs/main/HEAD: UNAVAILABLE"));
  auto new_one = MustOpen({});
  ASSERT_TRUE(Publish(*new_one, model).ok());
  EXPECT_EQ(Publish(**old_one, model).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReadHead(*store_, "main")->head.version->id.number, 1u);
}

// A store that takes any put.
class CarelessStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  StatusOr<bool> HonoursConditions() override { return false; }
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    EXPECT_EQ(condition.kind, PutCondition::Kind::kNone);
    return inner_.Put(key, source, condition);
  }
};

TEST_F(PublisherTest, AStoreWithoutConditionsNeedsAPromise) {
  CarelessStore careless(*store_);
  const PublisherDeps deps{careless, fs_, clock_, nonces_, TestKernels(), *log_};
  const auto refused = Publisher::Open({}, deps);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("single-writer"));
  auto publisher = Publisher::Open({.single_writer = true}, deps);
  ASSERT_TRUE(publisher.ok()) << publisher.status();
  const TestModel model = RandomModel(TinySchema(), 1);
  ASSERT_TRUE(Publish(**publisher, model).ok());
  ASSERT_TRUE(Publish(**publisher, Mutated(model, 1, 50)).ok());
}

// A network that carries out each request twice, and passes the second answer on.
class RepeatingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    inner_.Put(key, source, condition).status().IgnoreError();
    return inner_.Put(key, source, condition);
  }
};

TEST_F(PublisherTest, ARefusedSwapIsNoLostRaceWhereTheHeadIsItsOwn) {
  RepeatingStore repeating(*store_);
  const PublisherDeps deps{repeating, fs_, clock_, nonces_, TestKernels(), *log_};
  auto publisher = Publisher::Open({}, deps);
  ASSERT_TRUE(publisher.ok()) << publisher.status();
  const TestModel model = RandomModel(TinySchema(), 1);
  ASSERT_TRUE(Publish(**publisher, model).ok());
  ASSERT_TRUE(Publish(**publisher, Mutated(model, 1, 50)).ok());
}

// Each version goes to exactly one of those who try for it, and the other is told.
TEST(PublisherRace, ExactlyOneWinsEachVersion) {
  RealClock clock;
  const auto store = MakeMemoryStore(clock);
  UnsyncedFilesystem fs(clock);
  const auto log = NullLogger();
  const ModelSchema schema = SchemaOf({{"w", DType::kU8, {16}}});
  constexpr int kRounds = 1500;
  std::array<std::atomic<int>, 2> wins = {0, 0};
  std::atomic<int> losses = 0;
  const auto race = [&](uint32_t who) {
    CountingNonces nonces(who + 10);
    const PublisherDeps deps{*store, fs, clock, nonces, TestKernels(), *log};
    std::unique_ptr<Publisher> publisher;
    TestModel model = RandomModel(schema, who);
    for (int round = 0; round < kRounds; ++round) {
      if (!publisher) {
        auto opened = Publisher::Open({}, deps);
        if (!opened.ok()) {
          EXPECT_TRUE(absl::IsAborted(opened.status())) << opened.status();
          ++losses;
          continue;
        }
        publisher = *std::move(opened);
      }
      const auto published = publisher->Publish(model.view(), {});
      if (published.ok()) {
        ++wins[who];
        model.tensors[0][static_cast<size_t>(round) % 16] ^= 1;
      } else {
        EXPECT_TRUE(absl::IsAborted(published.status())) << published.status();
        ++losses;
        publisher.reset();
      }
    }
  };
  std::thread a(race, 0);
  std::thread b(race, 1);
  a.join();
  b.join();
  const auto head = ReadHead(*store, "main");
  ASSERT_TRUE(head.ok());
  // Every win is one version, and none was lost: the walk finds them all.
  const uint64_t total = static_cast<uint64_t>(wins[0] + wins[1]);
  EXPECT_EQ(head->head.version->id.number, total);
  auto chain = ChainReader::Open(*store, kChain);
  const auto walked = chain->Walk(*head->head.version, [](const Manifest&) { return false; });
  ASSERT_TRUE(walked.ok()) << walked.status();
  EXPECT_EQ(walked->size(), total);
  std::array<int, 2> versions = {0, 0};
  for (const Manifest& manifest : *walked) ++versions[manifest.id.nonce.starts_with("0000000b")];
  EXPECT_EQ(versions[0], wins[0]);
  EXPECT_EQ(versions[1], wins[1]);
  EXPECT_GT(losses, 0) << "they never met";
  Follower follower;
  EXPECT_TRUE(follower.Follow(*store, kChain).ok());
}

// Three ranks, each with a share of a model that none of them holds as a whole.
TEST_F(PublisherTest, SeveralRanksPublishTheirShares) {
  const uint64_t mib = kDigestChunkBytes;
  TestModel model = RandomModel(SchemaOf({{"big", DType::kBF16, {(kCellBytes + 5 * mib + 20) / 2}},
                                          {"small", DType::kU8, {9}}}),
                                1);
  const uint64_t end = model.schema.tensors()[0].bytes();
  const std::vector<std::vector<TensorRange>> shares = {
      {{0, 0, 3 * mib}},
      {{0, 3 * mib, kCellBytes}, {0, kCellBytes, kCellBytes + mib}},
      {{0, kCellBytes + mib, end}, {1, 0, 9}}};
  std::vector<std::string> folders = {"/r0", "/r1", "/r2"};
  for (uint64_t version = 1; version <= 3; ++version) {
    // A fresh start of all ranks each time: bases come from their folders, at 3 from the bucket.
    if (version == 3) folders = {"/s0", "/s1", "/s2"};
    for (const std::string& folder : folders) ASSERT_TRUE(fs_.CreateDirectories(folder).ok());
    auto first = MustOpen({.state_directory = folders[0], .ranges = shares[0]});
    EXPECT_EQ(first->Publish(model.view(), {}).status().code(), absl::StatusCode::kInvalidArgument);
    std::vector<std::unique_ptr<StagedBase>> others;
    std::vector<StagedBase*> bases = {&first->base()};
    for (size_t rank = 1; rank < 3; ++rank) {
      others.push_back(std::make_unique<StagedBase>(fs_, TestKernels(), folders[rank]));
      bases.push_back(others.back().get());
    }
    const ModelViewSource view(model.view());
    const auto attempt = first->Begin(model.schema, {});
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    EXPECT_EQ(attempt->base.has_value(), version > 1);

    std::vector<PartOptions> options(3);
    std::vector<EncodedPart> parts;
    std::vector<PartDigests> digests;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      options[rank].part = rank;
      options[rank].ranges = shares[rank];
      if (attempt->base && rank > 0) {
        auto chain = ChainReader::Open(*store_, kChain);
        ASSERT_TRUE(
            RestoreBase(*chain, TestKernels(), *attempt->base, shares[rank], {}, *bases[rank])
                .ok());
      }
      auto part = EncodePart(fs_, TestKernels(), options[rank], *attempt,
                             attempt->base ? bases[rank]->view() : nullptr, view, {});
      ASSERT_TRUE(part.ok()) << part.status();
      digests.push_back(*DeserializePartDigests(SerializePartDigests(part->digests)));
      parts.push_back(*std::move(part));
    }
    const auto combined = CombineParts(model.schema, digests);
    ASSERT_TRUE(combined.ok());
    const std::string reason = first->AnchorReason(*attempt, *combined, model.schema.bytes());
    std::vector<ManifestObject> objects;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const auto uploaded = UploadPart(*store_, options[rank], *attempt, parts[rank], *combined,
                                       view, !reason.empty());
      ASSERT_TRUE(uploaded.ok()) << uploaded.status();
      objects.insert(objects.end(), uploaded->begin(), uploaded->end());
    }
    const auto written =
        first->WriteManifest(*attempt, model.schema, *combined, objects, reason, {});
    ASSERT_TRUE(written.ok()) << written.status();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(bases[rank]->Stage(attempt->id, view, shares[rank], combined->changed == 0).ok());
    }
    ASSERT_TRUE(first->Commit(*written).ok());
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(bases[rank]->Promote(attempt->id, view, shares[rank]).ok());
    }
    Follower follower;
    ASSERT_TRUE(follower.Follow(*store_, kChain).ok());
    EXPECT_TRUE(SameBits(follower.model, model)) << version;
    model = Mutated(model, version, 2000);
  }
}

}  // namespace
}  // namespace pulse
