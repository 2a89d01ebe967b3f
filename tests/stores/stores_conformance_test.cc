// The conformance suite over real servers: moto (behind a strict gate), rclone, nginx.
#include <fcntl.h>
#include <sys/stat.h>

#include "remote_backend.h"
#include "server_process.h"
#include "store/file_store.h"
#include "store/forwarding_store.h"
#include "store/store_conformance.h"
#include "store/temporary_folder.h"

namespace pulse {
namespace {

using stores::RemoteWorld;
using stores::ServerProcess;
using stores::WriterKeys;

// A fresh prefix on a server that all tests share.
class S3Backend : public StoreBackend {
 public:
  explicit S3Backend(const ServerProcess& server) {
    static std::atomic<int> made = 0;
    uri_ = fmt::format("s3://bucket/test-{}/deep?endpoint={}", ++made, server.url());
    store_ = OpenAnother();
  }
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OpenAnother() override {
    auto store = world_.Open(uri_, WriterKeys());
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

 private:
  RemoteWorld world_;
  std::string uri_;
  std::unique_ptr<Store> store_;
};

std::unique_ptr<StoreBackend> MakeMoto() {
  static const auto server = ServerProcess::Start("s3_server.py", {});
  return server == nullptr ? nullptr : std::make_unique<S3Backend>(*server);
}

std::unique_ptr<StoreBackend> MakeRclone() {
  static const auto server = ServerProcess::Start("rclone_server.py", {});
  return server == nullptr ? nullptr : std::make_unique<S3Backend>(*server);
}

// nginx makes etags of seconds and sizes: so each put has a second of its own, as if they were that
// far apart.
class SecondsApart final : public ForwardingStore {
 public:
  SecondsApart(Store& inner, std::string root) : ForwardingStore(inner), root_(std::move(root)) {}
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    auto put = inner_.Put(key, source, condition);
    const timespec times[2] = {{++seconds_, 0}, {seconds_, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, (root_ + "/" + std::string(key)).c_str(), times, 0), 0);
    return put;
  }

 private:
  const std::string root_;
  time_t seconds_ = 1'700'000'000;
};

class NginxBackend final : public StoreBackend {
 public:
  NginxBackend(const ServerProcess& server, const std::string& served) {
    static int made = 0;
    const std::string name = fmt::format("test-{}", ++made);
    files_ =
        *OpenFileStore({.root = served + "/" + name, .create = true}, world_.fs(), world_.clock());
    filler_ = std::make_unique<SecondsApart>(*files_, served + "/" + name);
    uri_ = server.url() + "/" + name;
    store_ = OpenAnother();
  }
  Store& store() override { return *store_; }
  Store& filler() override { return *filler_; }
  std::unique_ptr<Store> OpenAnother() override {
    auto store = world_.Open(uri_, {});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

 private:
  RemoteWorld world_;
  std::string uri_;
  std::unique_ptr<Store> files_, filler_, store_;
};

std::unique_ptr<StoreBackend> MakeNginx() {
  static const TemporaryFolder folder(TemporaryFolder::Where::kMemory);
  static const std::string served = folder.path() + "/served";
  static const bool made = ::mkdir(served.c_str(), 0755) == 0;
  static const auto server =
      ServerProcess::Start("nginx_server.py", {served, folder.path() + "/scratch"});
  EXPECT_TRUE(made);
  return server == nullptr ? nullptr : std::make_unique<NginxBackend>(*server, served);
}

INSTANTIATE_TEST_SUITE_P(
    Remote, StoreConformance,
    ::testing::Values(StoreBackendParam{"Moto", {}, &MakeMoto, /*increments_per_thread=*/5},
                      StoreBackendParam{"Rclone",
                                        // Its readers see an object while it is being written.
                                        {.whole_replacements = false, .conditions = false},
                                        &MakeRclone},
                      StoreBackendParam{"Nginx",
                                        {.writes = false, .conditions = false, .lists = false},
                                        &MakeNginx}),
    NameOfBackend);

TEST(S3Store, PutsLargeObjectsInPartsAndRefusesConditionsThere) {
  for (const auto make : {&MakeMoto, &MakeRclone}) {
    const auto backend = make();
    ASSERT_NE(backend, nullptr);
    Store& store = backend->store();
    Bytes bytes((size_t{17} << 20) + 5);  // 8 + 8 + 1 MiB and a bit
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 4096);
    const auto put = store.Put("large", MemorySource(bytes), PutCondition::None());
    ASSERT_TRUE(put.ok()) << put.status();
    const auto got = store.Get("large", bytes.size());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(got->bytes == bytes);
    // rclone gives another etag when it is asked again: it has no conditions to use it for.
    if (make == &MakeMoto) {
      EXPECT_EQ(store.Stat("large")->etag, put->etag);
    }
    const Status refused =
        store.Put("large", MemorySource(bytes), PutCondition::IfMatch(put->etag)).status();
    EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  }
}

}  // namespace
}  // namespace pulse
