// Single faults, one at a time: what each of them does to a store.
#include "fault_proxy.h"
#include "remote_backend.h"

namespace pulse {
namespace {

using stores::FaultProxy;

class StoreFaults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { proxy_ = FaultProxy::Start().release(); }
  static void TearDownTestSuite() { delete proxy_; }

  void SetUp() override {
    ASSERT_NE(proxy_, nullptr);
    static int made = 0;
    uri_ = fmt::format("s3://bucket/faults-{}?endpoint={}", ++made, proxy_->url());
    store_ = Open(stores::FastRetries(2'000));
    ASSERT_NE(store_, nullptr);
    ASSERT_TRUE(*store_->HonoursConditions());
    ASSERT_TRUE(Put("o", "old").ok());
    proxy_->Control(nlohmann::json::object());
  }

  std::unique_ptr<Store> Open(const RemoteStoreOptions& options) {
    auto store = world_.Open(uri_, stores::WriterKeys(), options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::unique_ptr<Store> OpenWithoutRetries() {
    RemoteStoreOptions options = stores::FastRetries(2'000);
    options.retry.attempts = 1;
    return Open(options);
  }
  StatusOr<ObjectInfo> Put(const std::string& key, std::string_view text,
                           const PutCondition& condition = PutCondition::None()) {
    return store_->Put(key, MemorySource(AsBytes(text)), condition);
  }
  std::string Text(const std::string& key) {
    const auto object = store_->Get(key, 1 << 26);
    return object.ok() ? std::string(AsText(object->bytes)) : object.status().ToString();
  }

  static FaultProxy* proxy_;
  stores::RemoteWorld world_;
  std::string uri_;
  std::unique_ptr<Store> store_;
};

FaultProxy* StoreFaults::proxy_ = nullptr;

TEST_F(StoreFaults, AreRepairedByTryingAgainWhereTheServerDidNothing) {
  for (const std::string kind :
       {"error500", "slow_down", "reset", "garbled_put", "late", "stall"}) {
    proxy_->Next({kind, kind});
    EXPECT_TRUE(Put("o", kind).ok()) << kind;
    EXPECT_EQ(Text("o"), kind);
    proxy_->Next({kind});
    EXPECT_EQ(Text("o"), kind);
  }
}

TEST_F(StoreFaults, LeaveAnUnconditionalPutDoneOnceOrTwiceButDone) {
  for (const std::string kind : {"reset_after", "lost_answer", "duplicate"}) {
    proxy_->Next({kind});
    EXPECT_TRUE(Put("o", kind).ok()) << kind;
    EXPECT_EQ(Text("o"), kind);
  }
}

TEST_F(StoreFaults, MakeTheOutcomeOfAConditionalPutUnknownAndNeverALostRace) {
  for (const std::string kind : {"reset_after", "lost_answer"}) {
    const auto before = store_->Stat("o");
    ASSERT_TRUE(before.ok());
    proxy_->Next({kind});
    const Status status = Put("o", kind, PutCondition::IfMatch(before->etag)).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << kind << ": " << status;
    EXPECT_EQ(Text("o"), kind) << "it was done";
    proxy_->Next({kind});
    const Status absent = Put("new-" + kind, kind, PutCondition::IfAbsent()).status();
    EXPECT_TRUE(absl::IsUnavailable(absent)) << kind << ": " << absent;
  }
  // But where the server said so before it did anything, the race was lost.
  const Status lost = Put("o", "x", PutCondition::IfMatch("\"0123\"")).status();
  EXPECT_TRUE(absl::IsAborted(lost)) << lost;
}

// libcurl repeats a request by itself when a connection that it had kept open turns out dead.
TEST_F(StoreFaults, OfAKeptConnectionDoNotRepeatAConditionalPutUnseen) {
  const auto store = OpenWithoutRetries();
  ASSERT_TRUE(*store->HonoursConditions());
  for (int i = 0; i < 3; ++i) {
    const auto before = store->Stat("o");  // leaves a connection open
    ASSERT_TRUE(before.ok()) << before.status();
    proxy_->Next({"reset_after"});
    const std::string text = fmt::format("try {}", i);
    const Status status = store
                              ->Put("o", MemorySource(AsBytes(std::string_view(text))),
                                    PutCondition::IfMatch(before->etag))
                              .status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(proxy_->Control(nlohmann::json::object())["requests"], 1);
    EXPECT_EQ(Text("o"), text);
  }
}

TEST_F(StoreFaults, ThatCutADownloadAreResumedWhereItBroke) {
  std::string text(3'000'000, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  ASSERT_TRUE(Put("big", text).ok());
  proxy_->Next({"short_body", "short_body", "reset", "short_body"});
  EXPECT_TRUE(Text("big") == text);
  Bytes part(1'000'000);
  proxy_->Next({"short_body", "stall", "short_body"});
  ASSERT_TRUE(store_->ReadAt("big", 777'777, part).ok());
  EXPECT_TRUE(AsText(part) == text.substr(777'777, part.size()));
}

TEST_F(StoreFaults, ThatCutADownloadNeverJoinTwoObjects) {
  const std::string old_text(2'000'000, 'o'), new_text(1'500'000, 'n');
  ASSERT_TRUE(Put("changing", old_text).ok());
  // The first answer is cut; before the second request the object is replaced.
  const auto direct = world_.Open(
      fmt::format("{}{}", uri_.substr(0, uri_.find('?')), "?endpoint=" + proxy_->server_url()),
      stores::WriterKeys());
  ASSERT_TRUE(direct.ok());
  class Replacing final : public Clock {
   public:
    int64_t NowNs() const override { return 0; }
    int64_t UnixNs() const override { return 0; }
    void SleepFor(int64_t) override { replace(); }
    std::function<void()> replace;
  } clock;
  clock.replace = [&] {
    ASSERT_TRUE((*direct)
                    ->Put("changing", MemorySource(AsBytes(std::string_view(new_text))),
                          PutCondition::None())
                    .ok());
  };
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    const auto keys = stores::WriterKeys();
    const auto found = keys.find(name);
    return found == keys.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  const auto store = OpenRemoteStore(uri_, {world_.fs(), clock, environment, 7});
  ASSERT_TRUE(store.ok());
  proxy_->Next({"short_body"});
  const auto got = (*store)->Get("changing", 1 << 24);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(AsText(got->bytes) == new_text);
}

TEST_F(StoreFaults, ThatRedirectToAnotherPortTakeNoCredentialsThere) {
  const std::string text(100'000, 'r');
  ASSERT_TRUE(Put("o", text).ok());
  proxy_->Next({"redirect"});
  EXPECT_TRUE(Text("o") == text);
  Bytes part(1000);
  proxy_->Next({"redirect"});
  EXPECT_TRUE(store_->ReadAt("o", 5000, part).ok());
  const nlohmann::json happened = proxy_->Control(nlohmann::json::object());
  EXPECT_EQ(happened["faults"]["redirect"], 1);
  EXPECT_EQ(happened["leaks"], 0);
}

TEST_F(StoreFaults, OfOnePartAreRepairedInALargeUploadAndItsFailureIsAborted) {
  const std::string text(20'000'000, 'm');  // three parts
  proxy_->Next({"", "error500", "reset_after", "lost_answer"});
  const auto put = Put("large", text);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->etag, store_->Stat("large")->etag);
  EXPECT_TRUE(Text("large") == text);

  proxy_->Control({{"rate", 1.0}, {"kinds", {"error500"}}, {"next", {""}}});
  const Status failed = Put("large", std::string(20'000'000, 'n')).status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  proxy_->Control(nlohmann::json::object());
  EXPECT_TRUE(Text("large") == text) << "the old object stays";
}

TEST_F(StoreFaults, ThatDoNotEndAreReportedWithWhatTheServerSaid) {
  proxy_->Control({{"rate", 1.0}, {"kinds", {"slow_down"}}});
  const Status busy = Put("o", "x").status();
  EXPECT_TRUE(absl::IsUnavailable(busy)) << busy;
  EXPECT_NE(busy.message().find("503 SlowDown"), std::string::npos) << busy;
  proxy_->Control({{"rate", 1.0}, {"kinds", {"reset"}}});
  EXPECT_TRUE(absl::IsUnavailable(store_->Stat("o").status()));
  proxy_->Control(nlohmann::json::object());
  EXPECT_EQ(Text("o"), "old");
}

}  // namespace
}  // namespace pulse
