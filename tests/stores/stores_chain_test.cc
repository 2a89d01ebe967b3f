// A chain of versions published to and followed from S3 while one request in twenty goes wrong.
//
// 50 versions; as many as PULSE_CHAIN_VERSIONS says where it is set.
#include <cstdlib>

#include "fault_proxy.h"
#include "inference_bridge/follow_test_world.h"
#include "remote_backend.h"

namespace pulse {
namespace {

using stores::FaultProxy;

constexpr int kTries = 20;  // of a publish or step; a fault that retries don't cover is rare

uint64_t Versions() {
  const char* text = std::getenv("PULSE_CHAIN_VERSIONS");
  return text == nullptr ? 50 : std::strtoull(text, nullptr, 10);
}

// What a user may meet on such a network and do again; all else fails the test.
bool MayBeDoneAgain(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsDataLoss(status);
}

class ChainOverS3 : public ::testing::Test {
 protected:
  void SetUp() override {
    proxy_ = FaultProxy::Start();
    ASSERT_NE(proxy_, nullptr);
    auto store = world_.Open("s3://bucket/chain?endpoint=" + proxy_->url(), stores::WriterKeys(),
                             stores::FastRetries(2'000));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    PublisherOptions options;
    options.max_chain_length = 20;
    auto publisher = Publisher::Open(
        options, {*store_, publisher_fs_, world_.clock(), nonces_, *kernels_, *log_});
    ASSERT_TRUE(publisher.ok()) << publisher.status();
    publisher_ = *std::move(publisher);
  }

  // The next version. One whose outcome stayed unknown may be there too, with the same weights.
  void Publish() {
    model_ = testing::Mutated(model_, newest_, 200);
    const ModelView view = model_.view();
    StatusOr<Published> published = Internal("not tried");
    for (int i = 0; i < kTries && !published.ok(); ++i) {
      published = publisher_->Publish(view, {});
      if (published.ok()) break;
      ASSERT_TRUE(MayBeDoneAgain(published.status())) << published.status();
      ++done_again_;
    }
    ASSERT_TRUE(published.ok()) << published.status();
    while (newest_ < published->ref.id.number) versions_[++newest_] = model_;
  }

  // Follows to `number`, and compares every bit.
  void Follow(Follower& follower, TestMachine& machine, uint64_t number) {
    StatusOr<FollowResult> result = Internal("not tried");
    for (int i = 0; i < kTries && !result.ok(); ++i) {
      result = follower.Step(FollowTarget::Number(number));
      if (result.ok()) break;
      ASSERT_TRUE(MayBeDoneAgain(result.status())) << result.status();
      ++done_again_;
    }
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->digest, ViewDigest(versions_[number].view()));
    const auto checkpoint = Checkpoint::Open(machine.fs, machine.Options().output);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const ModelView view = (*checkpoint)->view();
    for (size_t i = 0; i < view.tensors.size(); ++i) {
      const Bytes& expected = versions_[number].tensors[i];
      EXPECT_TRUE(std::equal(view.tensors[i].begin(), view.tensors[i].end(), expected.begin(),
                             expected.end()))
          << "version " << number << " tensor " << i;
    }
  }

  stores::RemoteWorld world_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<Store> store_;
  UnsyncedFilesystem publisher_fs_{world_.clock()};
  testing::CountingNonces nonces_{1};
  StatusOr<kernels::KernelTable> kernels_ = kernels::ChooseKernels("auto");
  std::shared_ptr<Logger> log_ = NullLogger();
  std::unique_ptr<Publisher> publisher_;
  testing::TestModel model_ = testing::RandomModel(
      testing::SchemaOf({{"bias", DType::kF32, {3}}, {"layer", DType::kBF16, {200, 150}}}), 1);
  std::map<uint64_t, testing::TestModel> versions_;
  uint64_t newest_ = 0;
  int done_again_ = 0;
};

TEST_F(ChainOverS3, IsBitIdenticalAtEveryVersionThoughOneRequestInTwentyGoesWrong) {
  TestMachine host(world_.clock()), late_host(world_.clock());
  auto follower = host.Open(*store_);
  ASSERT_TRUE(follower.ok()) << follower.status();
  proxy_->Control({{"rate", 0.05}, {"seed", 1}});
  while (newest_ < Versions()) {
    ASSERT_NO_FATAL_FAILURE(Publish());
    ASSERT_NO_FATAL_FAILURE(Follow(**follower, host, newest_));
  }
  // Another one, from the start, version by version.
  auto late = late_host.Open(*store_);
  ASSERT_TRUE(late.ok()) << late.status();
  for (uint64_t number = 1; number <= newest_; ++number) {
    ASSERT_NO_FATAL_FAILURE(Follow(**late, late_host, number));
  }
  const nlohmann::json happened = proxy_->Control(nlohmann::json::object());
  std::cout << newest_ << " versions, " << done_again_ << " times done again, " << happened.dump()
            << "\n";
  EXPECT_EQ(happened["leaks"], 0) << "credentials were sent to where a redirect led";
  int faults = 0;
  for (const auto& [kind, count] : happened["faults"].items()) faults += count.get<int>();
  EXPECT_GT(faults, happened["requests"].get<int>() / 40) << "too few faults to prove anything";
}

}  // namespace
}  // namespace pulse
