#include "sync/head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/clock.h"
#include "store/forwarding_store.h"
#include "store/memory_store.h"
#include "sync/testing.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

// From `printf ... | sha256sum` over the text without its member "checksum".
constexpr char kChecksum[] = "5b4a4faef5a704e5bb24167c00bb208e22347497f26de073ee8741ee9dfacce5";

std::string Nonce(char c) {
  return std::string(32, c);
}

Head SomeHead() {
  Head head;
  head.run = "main";
  head.epoch = 2;
  head.nonce = Nonce('b');
  head.publisher = Nonce('c');
  VersionRef& ref = head.version.emplace();
  ref.id = {1, 5, Nonce('d')};
  ref.manifest_sha256 = std::string(64, 'e');
  return head;
}

std::string ExpectedSpelling() {
  return fmt::format(
      R"({{"checksum":"{}","epoch":2,"format":"pulse-head-1","nonce":"{}","publisher":"{}",)"
      R"("run":"main","version":{{"epoch":1,"manifest_sha256":"{}","nonce":"{}","number":5}}}})",
      kChecksum, Nonce('b'), Nonce('c'), std::string(64, 'e'), Nonce('d'));
}

TEST(Head, ReadsWhatItWrites) {
  Head head = SomeHead();
  EXPECT_EQ(*ParseHead(AsBytes(SerializeHead(head)), "main"), head);
  head.version.reset();
  EXPECT_EQ(*ParseHead(AsBytes(SerializeHead(head)), "main"), head);
}

TEST(Head, IsSpelledAsTheDocumentSays) {
  EXPECT_EQ(SerializeHead(SomeHead()), ExpectedSpelling());
}

TEST(Head, EveryFlippedBitAndEveryCutIsFound) {
  const std::string good = SerializeHead(SomeHead());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(ParseHead(AsBytes(bad), "main").status().code(), absl::StatusCode::kDataLoss) << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ParseHead(AsBytes(good).first(size), "main").ok()) << size;
  }
}

TEST(Head, RefusesOtherSpellingsRunsAndNonsense) {
  const std::string good = SerializeHead(SomeHead());
  std::vector<std::string> bad = {good + "\n", " " + good, good + good, "",
                                  "{}",        "[]",       "null",      "7"};
  std::string spaced = good;
  spaced.insert(1, " ");
  bad.push_back(spaced);
  std::string repeated = good;
  repeated.insert(1, "\"epoch\":2,");
  bad.push_back(repeated);
  std::string extra = good;
  extra.insert(extra.size() - 1, ",\"zzz\":1");
  bad.push_back(extra);
  bad.push_back(std::string(100'000, '['));
  for (const std::string& text : bad) {
    EXPECT_EQ(ParseHead(AsBytes(text), "main").status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
  EXPECT_THAT(ParseHead(AsBytes(good), "other").status().ToString(), HasSubstr("\"main\""));
  Head zero = SomeHead();
  zero.epoch = 0;
  EXPECT_FALSE(ParseHead(AsBytes(SerializeHead(zero)), "main").ok());
  Head behind = SomeHead();
  behind.version->id.epoch = 3;
  EXPECT_FALSE(ParseHead(AsBytes(SerializeHead(behind)), "main").ok());
}

// Answers a put with an error, having done it or not.
class LyingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  int lies = 0;
  bool does_it = true;
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  bool deaf = false;

  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    if (deaf) return Unavailable("no answer");
    return inner_.Get(key, max_bytes);
  }
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    if (lies == 0) return inner_.Put(key, source, condition);
    --lies;
    if (does_it) PULSE_RETURN_IF_ERROR(inner_.Put(key, source, condition).status());
    return Status(code, "lost answer");
  }
};

class SwapHeadTest : public ::testing::Test {
 protected:
  VirtualClock clock_;
  std::unique_ptr<Store> memory_ = MakeMemoryStore(clock_);
  LyingStore store_{*memory_};

  Head First() const { return {"main", 1, Nonce('1'), Nonce('a'), {}}; }
  Head Second() const { return {"main", 2, Nonce('2'), Nonce('b'), {}}; }
  Head Third() const { return {"main", 3, Nonce('3'), Nonce('c'), {}}; }
};

TEST_F(SwapHeadTest, CreatesAndReplaces) {
  const auto first = SwapHead(store_, std::nullopt, First(), true);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(SwapHead(store_, *first, Second(), true).ok());
  EXPECT_EQ(ReadHead(store_, "main")->head, Second());
}

TEST_F(SwapHeadTest, TellsTheLoser) {
  const auto first = SwapHead(store_, std::nullopt, First(), true);
  EXPECT_EQ(SwapHead(store_, std::nullopt, Second(), true).status().code(),
            absl::StatusCode::kAborted);
  ASSERT_TRUE(SwapHead(store_, *first, Second(), true).ok());
  const auto loser = SwapHead(store_, *first, Third(), true);
  EXPECT_EQ(loser.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(loser.status().ToString(), HasSubstr("another publisher"));
  EXPECT_EQ(ReadHead(store_, "main")->head, Second());
}

TEST_F(SwapHeadTest, ALostAnswerToASuccessIsAWin) {
  for (const auto code : {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded,
                          absl::StatusCode::kAborted}) {
    ASSERT_TRUE(memory_->Delete(HeadKey("main")).ok());
    const auto first = SwapHead(store_, std::nullopt, First(), true);
    ASSERT_TRUE(first.ok());
    store_.lies = 1;
    store_.code = code;
    const auto second = SwapHead(store_, *first, Second(), true);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(SwapHead(store_, *second, Third(), true).ok()) << "its etag must be usable";
  }
}

TEST_F(SwapHeadTest, AnUndoneSwapIsTriedAgainAFewTimes) {
  const auto first = SwapHead(store_, std::nullopt, First(), true);
  store_.does_it = false;
  store_.lies = 2;
  EXPECT_TRUE(SwapHead(store_, *first, Second(), true).ok());
  const auto second = ReadHead(store_, "main");
  store_.lies = 100;
  EXPECT_EQ(SwapHead(store_, *second, Third(), true).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReadHead(*memory_, "main")->head, Second());
}

TEST_F(SwapHeadTest, SaysThatTheOutcomeIsUnknownWhenNothingCanBeRead) {
  const auto first = SwapHead(store_, std::nullopt, First(), true);
  store_.lies = 1;
  store_.deaf = true;
  const auto second = SwapHead(store_, *first, Second(), true);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().ToString(), HasSubstr("unknown"));
}

TEST_F(SwapHeadTest, WithoutConditionsTheHeadIsComparedFirst) {
  const auto first = SwapHead(store_, std::nullopt, First(), false);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(SwapHead(store_, *first, Second(), false).ok());
  EXPECT_EQ(SwapHead(store_, *first, Third(), false).status().code(), absl::StatusCode::kAborted);
}

TEST_F(SwapHeadTest, ReadingNamesWhatIsMissingOrDamaged) {
  EXPECT_EQ(ReadHead(store_, "main").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadHead(store_, "../x").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string large(kMaxHeadBytes + 1, 'x');
  ASSERT_TRUE(
      memory_->Put(HeadKey("main"), MemorySource(AsBytes(large)), PutCondition::None()).ok());
  EXPECT_EQ(ReadHead(store_, "main").status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace pulse
