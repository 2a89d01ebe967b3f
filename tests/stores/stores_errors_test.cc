// What is refused, and whether one line says why and what to do, without giving a secret away.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>

#include "remote_backend.h"
#include "server_process.h"
#include "store/temporary_folder.h"

namespace pulse {
namespace {

using stores::KeysOf;
using stores::ServerProcess;
using stores::Variables;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StoreErrors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = ServerProcess::Start("s3_server.py", {}).release(); }
  static void TearDownTestSuite() { delete server_; }
  void SetUp() override { ASSERT_NE(server_, nullptr); }

  // What get, put and list say on a bucket: the same for all three, but for the operation's name.
  Status Try(const std::string& place, const Variables& variables, bool write = false) {
    RemoteStoreOptions options = stores::FastRetries();
    options.retry.attempts = 2;
    const char* separator = place.find('?') == std::string::npos ? "?" : "&";
    auto store = world_.Open(
        place.starts_with("s3://") ? place + separator + "endpoint=" + server_->url() : place,
        variables, options);
    PULSE_RETURN_IF_ERROR(store.status());
    if (write) return (*store)->Put("o", MemorySource({}), PutCondition::None()).status();
    const Status stat = (*store)->Stat("o").status();
    const Status get = (*store)->Get("o", 100).status();
    EXPECT_EQ(stat.code(), get.code()) << stat << " against " << get;
    EXPECT_THAT(std::string(get.message()), Not(HasSubstr("\n")));
    return get;
  }
  static std::string Message(const Status& status) { return std::string(status.message()); }

  static ServerProcess* server_;
  stores::RemoteWorld world_;
};

ServerProcess* StoreErrors::server_ = nullptr;

TEST_F(StoreErrors, NameAnUnknownKeyWithoutShowingIt) {
  const Status status = Try("s3://bucket", KeysOf("AKIANOBODY", "secret-of-nobody"));
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("does not know the access key id"), HasSubstr("AWS_ACCESS_KEY_ID"),
                    Not(HasSubstr("AKIANOBODY")), Not(HasSubstr("secret-of-nobody"))));
}

TEST_F(StoreErrors, NameAWrongSecretWithoutShowingIt) {
  const Status status = Try("s3://bucket", KeysOf("WRITER", "wrong-secret"));
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("secret access key"), HasSubstr("AWS_SECRET_ACCESS_KEY"),
                    Not(HasSubstr("wrong-secret")), Not(HasSubstr("WRITER"))));
}

TEST_F(StoreErrors, NameAnExpiredAndAnInvalidToken) {
  Variables variables = KeysOf("EXPIRED", "expired");
  variables["AWS_SESSION_TOKEN"] = "session-token";
  const Status expired = Try("s3://bucket", variables);
  EXPECT_TRUE(absl::IsPermissionDenied(expired)) << expired;
  EXPECT_THAT(Message(expired), AllOf(HasSubstr("has expired: get new credentials"),
                                      Not(HasSubstr("session-token"))));
  variables["AWS_SESSION_TOKEN"] = "another";
  EXPECT_THAT(Message(Try("s3://bucket", variables)), HasSubstr("AWS_SESSION_TOKEN"));
  variables = KeysOf("SESSION", "session");
  variables["AWS_SESSION_TOKEN"] = "session-token";
  EXPECT_TRUE(absl::IsNotFound(Try("s3://bucket", variables))) << "a good one is sent and signed";
}

TEST_F(StoreErrors, NameTheClocksDifference) {
  const Status status = Try("s3://bucket", KeysOf("SKEWED", "skewed"));
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("clock is off by -3"), HasSubstr("set it")));
}

TEST_F(StoreErrors, NameAMissingBucketAndNotJustTheObject) {
  const Status status = Try("s3://no-such-bucket", stores::WriterKeys());
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("no bucket no-such-bucket"));
  EXPECT_THAT(Message(Try("s3://bucket", stores::WriterKeys())), HasSubstr("no object \"o\""));
}

TEST_F(StoreErrors, NameTheMissingPermission) {
  const Status status = Try("s3://bucket", KeysOf("READER", "reader"), /*write=*/true);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("allow s3:PutObject for bucket"));
  EXPECT_THAT(Message(Try("s3://bucket?anonymous=true", {})),
              HasSubstr("there are no credentials"));
}

TEST_F(StoreErrors, NameTheRegionOfTheBucket) {
  const Status elsewhere = Try("s3://elsewhere", stores::WriterKeys());
  EXPECT_TRUE(absl::IsInvalidArgument(elsewhere)) << elsewhere;
  EXPECT_THAT(Message(elsewhere), AllOf(HasSubstr("in region eu-west-1"), HasSubstr("AWS_REGION")));
  const Status wrong = Try("s3://bucket?region=eu-west-1", stores::WriterKeys());
  EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << wrong;
  EXPECT_THAT(Message(wrong), HasSubstr("signed for eu-west-1"));
}

TEST_F(StoreErrors, NameAFullDisk) {
  const Status status = Try("s3://full", stores::WriterKeys(), /*write=*/true);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("no space left"));
}

TEST_F(StoreErrors, NameAnUnknownHostAndAClosedPort) {
  const Status unknown = Try("http://no-such-host.invalid/x", {});
  EXPECT_TRUE(absl::IsUnavailable(unknown)) << unknown;
  EXPECT_THAT(Message(unknown), HasSubstr("unknown host no-such-host.invalid"));
  const Status closed = Try("http://127.0.0.1:1/x", {});
  EXPECT_TRUE(absl::IsUnavailable(closed)) << closed;
  EXPECT_THAT(Message(closed), HasSubstr("can't connect to 127.0.0.1:1"));
}

TEST_F(StoreErrors, InTheEnvironmentAreFoundBeforeTheNetworkIsAsked) {
  EXPECT_THAT(Message(Try("s3://bucket", {})), HasSubstr("no credentials: set AWS_ACCESS_KEY_ID"));
  EXPECT_THAT(Message(Try("s3://bucket", {{"AWS_ACCESS_KEY_ID", "K"}})),
              HasSubstr("AWS_SECRET_ACCESS_KEY is not"));
  EXPECT_THAT(Message(Try("s3://bucket", {{"AWS_PROFILE", "nobody"}})), HasSubstr("AWS_PROFILE"));
  const std::pair<std::string, std::string> uris[] = {
      {"s3://b", "bucket name"},
      {"s3://bucket?regoin=x", "unknown option \"regoin\": expected endpoint, region"},
      {"s3://bucket?path_style=yes", "expected true or false"},
      {"s3://bucket?region=eu/west", "is no region"},
      {"s3://bucket/a/../b", "prefix"},
      {"https://user:hunter2@host/x", "may not hold a user name or password"},
      {"hf://models/a/b", "expected hf://buckets/NAMESPACE/NAME"},
      {"hf://buckets/a", "expected hf://buckets/NAMESPACE/NAME"}};
  for (const auto& [uri, part] : uris) {
    const auto store = world_.Open(uri, stores::WriterKeys());
    EXPECT_TRUE(absl::IsInvalidArgument(store.status())) << uri << " " << store.status();
    EXPECT_THAT(Message(store.status()), AllOf(HasSubstr(part), Not(HasSubstr("hunter2"))));
  }
}

TEST_F(StoreErrors, OfOldCredentialsGoAwayWhenTheProfileFileHasNewOnes) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/credentials";
  const auto write = [&](const std::string& user, const std::string& secret) {
    const std::string text = fmt::format(
        "# mine\n[default]\naws_access_key_id = nobody\n\n[work]\naws_access_key_id={}\n"
        "aws_secret_access_key = {}\naws_session_token = session-token\n",
        user, secret);
    ASSERT_TRUE(WriteFileAtomically(world_.fs(), path, AsBytes(std::string_view(text))).ok());
  };
  write("EXPIRED", "expired");
  const Variables variables = {{"AWS_PROFILE", "work"}, {"AWS_SHARED_CREDENTIALS_FILE", path}};
  auto store = world_.Open("s3://bucket?endpoint=" + server_->url(), variables);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Message((*store)->Stat("none").status()), HasSubstr("profile work of " + path));
  write("SESSION", "session");
  EXPECT_TRUE(absl::IsNotFound((*store)->Stat("none").status())) << (*store)->Stat("none").status();
}

// nginx with a certificate of a CA that the test makes.
class TlsErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    ::mkdir((folder_.path() + "/served").c_str(), 0755);
    const std::string make = fmt::format(
        "cd {} && printf 'subjectAltName=IP:127.0.0.1' > san && "
        "for ca in ca other; do openssl req -x509 -newkey rsa:2048 -nodes -keyout $ca.key -out "
        "$ca.pem "
        "-days 2 -subj /CN=$ca 2>/dev/null || exit 1; done && "
        "openssl req -newkey rsa:2048 -nodes -keyout key.pem -out csr -subj /CN=test 2>/dev/null "
        "&& "
        "openssl x509 -req -in csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san "
        "-out cert.pem 2>/dev/null && printf hello > served/o",
        folder_.path());
    ASSERT_EQ(std::system(make.c_str()), 0);
    server_ = ServerProcess::Start(
        "nginx_server.py", {Path("served"), Path("scratch"), Path("cert.pem"), Path("key.pem")});
    ASSERT_NE(server_, nullptr);
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  StatusOr<Object> Get(const std::string& options, const Variables& variables) {
    PULSE_ASSIGN_OR_RETURN(const auto store,
                           world_.Open(server_->url("https") + options, variables));
    return store->Get("o", 100);
  }

  TemporaryFolder folder_;
  stores::RemoteWorld world_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(TlsErrors, SayWhoseCertificateIsNotTrustedAndHowToTrustIt) {
  EXPECT_TRUE(Get("?ca=" + Path("ca.pem"), {}).ok()) << Get("?ca=" + Path("ca.pem"), {}).status();
  EXPECT_TRUE(Get("", {{"AWS_CA_BUNDLE", Path("ca.pem")}}).ok());
  for (const std::string& option : {std::string(), "?ca=" + Path("other.pem")}) {
    const Status status = Get(option, {}).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("certificate that is not trusted"), HasSubstr("AWS_CA_BUNDLE")));
  }
  const Status missing = Get("?ca=" + Path("none.pem"), {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("none.pem"));
}

// The stub of the Hub, whose storage is the S3 server.
class HubStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    s3_ = ServerProcess::Start("s3_server.py", {});
    ASSERT_NE(s3_, nullptr);
    hub_ = ServerProcess::Start("hub_stub.py", {std::to_string(s3_->port())});
    ASSERT_NE(hub_, nullptr);
  }
  std::unique_ptr<Store> Open(Variables variables) {
    variables["HF_ENDPOINT"] = variables["HF_S3_ENDPOINT"] = hub_->url();
    auto store = world_.Open("hf://buckets/ns/name/deep/er", variables);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  stores::RemoteWorld world_;
  std::unique_ptr<ServerProcess> s3_, hub_;
};

TEST_F(HubStoreTest, WritesThroughTheGatewayAndReadsByResolveUrls) {
  Variables both = stores::WriterKeys();
  both["HF_TOKEN"] = "hf_token";
  const auto writer = Open(both);
  ASSERT_TRUE(*writer->HonoursConditions());
  const std::string text = "0123456789";
  const auto put = writer->Put("runs/x/HEAD", MemorySource(AsBytes(std::string_view(text))),
                               PutCondition::IfAbsent());
  ASSERT_TRUE(put.ok()) << put.status();
  ASSERT_TRUE(writer->Put("void", MemorySource({}), PutCondition::None()).ok());
  EXPECT_EQ(writer->Get("runs/x/HEAD", 100)->info.etag, put->etag);
  const auto listed = ListAll(*writer, "runs/", true);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->prefixes, std::vector<std::string>{"runs/x/"});

  const auto reader = Open({{"HF_TOKEN", "hf_token"}});
  const auto got = reader->Get("runs/x/HEAD", 100);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(AsText(got->bytes), text);
  Bytes part(3);
  ASSERT_TRUE(reader->ReadAt("runs/x/HEAD", 4, part).ok());
  EXPECT_EQ(AsText(part), "456");
  EXPECT_EQ(reader->Stat("runs/x/HEAD")->bytes, 10u);
  EXPECT_EQ(reader->Stat("void")->bytes, 0u);
  EXPECT_TRUE(absl::IsNotFound(reader->Stat("none").status()));
  const Status write = reader->Put("x", MemorySource({}), PutCondition::None()).status();
  EXPECT_TRUE(absl::IsPermissionDenied(write)) << write;
  EXPECT_THAT(std::string(write.message()), HasSubstr("S3 credentials generated from your token"));
  EXPECT_TRUE(absl::IsUnimplemented(reader->List("", "", 1, false).status()));
}

TEST_F(HubStoreTest, SaysHowToGetIn) {
  const Status nobody = Open({})->Get("o", 1).status();
  EXPECT_TRUE(absl::IsPermissionDenied(nobody)) << nobody;
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("set HF_TOKEN"));
  const Status wrong = Open({{"HF_TOKEN", "hf_wrong"}})->Get("o", 1).status();
  EXPECT_THAT(std::string(wrong.message()),
              AllOf(HasSubstr("no longer valid"), Not(HasSubstr("hf_wrong"))));
}

}  // namespace
}  // namespace pulse
