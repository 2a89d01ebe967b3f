// The parts of the remote stores that need no server: clock and network are the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "store/remote/aws_credentials.h"
#include "store/remote/download.h"
#include "store/remote/http_session.h"
#include "store/remote/s3_xml.h"
#include "store/remote/url.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Answers as it is told, and keeps what it was asked.
class ScriptedTransport final : public HttpTransport {
 public:
  using Answer = std::function<HttpOutcome(const HttpRequest&, HttpBodySink&)>;
  HttpOutcome Send(const HttpRequest& request, HttpBodySink& sink) override {
    requests.push_back(request);
    return answer(request, sink);
  }
  Answer answer;
  std::vector<HttpRequest> requests;
};

HttpOutcome Says(int status, std::map<std::string, std::string, std::less<>> headers = {}) {
  HttpOutcome outcome;
  outcome.response.status = status;
  outcome.response.headers = std::move(headers);
  return outcome;
}

class PlainExchange final : public HttpExchange {
 public:
  explicit PlainExchange(HttpRequest request) : request_(std::move(request)) {}
  StatusOr<HttpRequest> Request() override { return request_; }
  Status Start(const HttpResponse&) override { return OkStatus(); }
  Status Append(ByteView) override { return OkStatus(); }
  bool WorthRepeating(const HttpResponse& response) override {
    return IsMomentary(response.status);
  }

 private:
  HttpRequest request_;
};

class SessionTest : public ::testing::Test {
 protected:
  StatusOr<HttpAnswer> Run(HttpRequest request, ScriptedTransport::Answer answer) {
    auto transport = std::make_unique<ScriptedTransport>();
    transport_ = transport.get();
    transport_->answer = std::move(answer);
    session_ = std::make_unique<HttpSession>(std::move(transport), retry_, 1, clock_);
    PlainExchange exchange(std::move(request));
    return session_->Run(exchange);
  }

  VirtualClock clock_;
  RetryOptions retry_;
  std::unique_ptr<HttpSession> session_;
  ScriptedTransport* transport_ = nullptr;
};

TEST_F(SessionTest, WaitsLongerEachTimeAndGivesUpAtItsBounds) {
  const auto busy = Run({.url = "http://a/"}, [](const auto&, auto&) { return Says(503); });
  ASSERT_TRUE(busy.ok());
  EXPECT_EQ(busy->response.status, 503);
  EXPECT_TRUE(busy->earlier_may_have_happened);
  EXPECT_THAT(transport_->requests, SizeIs(7));
  const int64_t all_ms = 100 + 200 + 400 + 800 + 1600 + 3200;
  EXPECT_GE(clock_.NowNs(), all_ms / 2 * 1'000'000);
  EXPECT_LE(clock_.NowNs(), all_ms * 1'000'000);
}

TEST_F(SessionTest, KeepsWhatRetryAfterAsksUnlessItIsTooLong) {
  int asked = 0;
  const auto answered = Run({.url = "http://a/"}, [&](const auto&, auto&) {
    return ++asked == 1 ? Says(429, {{"retry-after", "17"}}) : Says(200);
  });
  EXPECT_EQ(answered->response.status, 200);
  EXPECT_EQ(clock_.NowNs(), 17'000'000'000);
  const auto too_long = Run({.url = "http://a/"}, [](const auto&, auto&) {
    return Says(503, {{"retry-after", "86400"}});
  });
  EXPECT_EQ(too_long->response.status, 503);
  EXPECT_THAT(transport_->requests, SizeIs(1));
}

TEST_F(SessionTest, SaysWhetherAnUnansweredAttemptMayHaveHappened) {
  for (const bool arrived : {false, true}) {
    int asked = 0;
    const auto answer = Run({.method = "PUT", .url = "http://a/"}, [&](const auto&, auto&) {
      if (++asked > 1) return Says(412);
      return HttpOutcome{Unavailable("reset"), arrived, /*retry=*/true, {}};
    });
    EXPECT_EQ(answer->earlier_may_have_happened, arrived);
  }
}

TEST_F(SessionTest, TakesCredentialsToTheFirstHostAlone) {
  HttpRequest request{.url = "https://a/x"};
  request.headers = {"Range: bytes=0-1"};
  request.private_headers = {"Authorization: Bearer t"};
  request.signing = AwsSigning{"k", "s", "r"};
  const auto answer = Run(request, [](const HttpRequest& sent, auto&) {
    if (sent.url == "https://a/x") return Says(302, {{"location", "/y"}});
    if (sent.url == "https://a/y") return Says(307, {{"location", "https://a:8443/z"}});
    return Says(200);
  });
  EXPECT_EQ(answer->response.status, 200);
  ASSERT_THAT(transport_->requests, SizeIs(3));
  EXPECT_TRUE(transport_->requests[1].signing.has_value());
  EXPECT_THAT(transport_->requests[1].private_headers, SizeIs(1));
  EXPECT_EQ(transport_->requests[2].url, "https://a:8443/z");
  EXPECT_FALSE(transport_->requests[2].signing.has_value());
  EXPECT_THAT(transport_->requests[2].private_headers, SizeIs(0));
  EXPECT_THAT(transport_->requests[2].headers, ElementsAre("Range: bytes=0-1"));
}

TEST_F(SessionTest, FollowsNoRedirectInCirclesNorAwayFromTlsNorOfAWrite) {
  const auto circle = Run({.url = "http://a/x"}, [](const auto&, auto&) {
    return Says(302, {{"location", "/x"}});
  });
  EXPECT_TRUE(absl::IsInvalidArgument(circle.status())) << circle.status();
  for (const std::string to : {"http://a/y", "file:///etc/passwd", "gopher://a/"}) {
    const auto down = Run({.url = "https://a/x"}, [&](const auto&, auto&) {
      return Says(302, {{"location", to}});
    });
    EXPECT_TRUE(absl::IsInvalidArgument(down.status())) << to << down.status();
    EXPECT_THAT(transport_->requests, SizeIs(1));
  }
  const auto write = Run({.method = "PUT", .url = "http://a/x"}, [](const auto&, auto&) {
    return Says(307, {{"location", "http://b/x"}});
  });
  EXPECT_EQ(write->response.status, 307);
}

TEST(Retry, ReadsSecondsAndDates) {
  const int64_t now = *ParseHttpDate("Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(now, 784111777'000'000'000);
  EXPECT_EQ(ParseRetryAfterMs("3", now), 3000);
  EXPECT_EQ(ParseRetryAfterMs("Sun, 06 Nov 1994 08:49:47 GMT", now), 10'000);
  EXPECT_EQ(ParseRetryAfterMs("Sun, 06 Nov 1994 08:49:27 GMT", now), 0);
  EXPECT_EQ(ParseRetryAfterMs("soon", now), std::nullopt);
  EXPECT_EQ(ParseRetryAfterMs("", now), std::nullopt);
}

TEST(Url, EncodesAsSignaturesWantItAndTakesUrisApart) {
  EXPECT_EQ(PercentEncode("a/b=c ~\xc3\xa4", true), "a/b%3Dc%20~%C3%A4");
  EXPECT_EQ(PercentEncode("a/b", false), "a%2Fb");
  EXPECT_EQ(PercentDecode("a%2Fb+c%zz%4"), "a/b c%zz%4");
  EXPECT_EQ(EncodeQuery({{"b", "x/y"}, {"a", ""}}), "a=&b=x%2Fy");
  const auto url = ParseUrl("S3://bucket/a/b?endpoint=http://h:1&region=x");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->scheme, "s3");
  EXPECT_EQ(url->authority, "bucket");
  EXPECT_EQ(url->path, "/a/b");
  EXPECT_EQ(url->query.at("endpoint"), "http://h:1");
  for (const std::string bad : {"", "://x", "s3://", "s3:///p", "http://u:p@h/", "http://h/a b",
                                "http://h/#f", "http://h/\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseUrl(bad).status())) << bad;
  }
  EXPECT_EQ(OriginOf("https://h/x"), OriginOf("https://h:443/y"));
  EXPECT_NE(OriginOf("https://h/x"), OriginOf("http://h/x"));
}

TEST(ContentRange, TakesWholeOnesAndNothingElse) {
  const auto range = ParseContentRange("bytes 5-9/100");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->begin, 5u);
  EXPECT_EQ(range->end, 10u);
  EXPECT_EQ(range->total, 100u);
  EXPECT_EQ(ParseContentRange("bytes */7")->total, 7u);
  for (const std::string bad : {"", "bytes", "bytes 1-2", "items 1-2/3", "bytes 2-1/3",
                                "bytes -1/3", "bytes 1-18446744073709551615/*", "bytes 1-2/x"}) {
    EXPECT_FALSE(ParseContentRange(bad).has_value()) << bad;
  }
}

TEST(Ini, IsReadAsTheAwsToolsReadIt) {
  const IniFile file = ParseIni(
      "stray = 1\n# comment\n[default]\r\nAWS_ACCESS_KEY_ID = a=b \n; another\ns3 =\n"
      "  addressing_style = path\nregion=x\n\n[profile work]\nnonsense\nregion = y");
  EXPECT_EQ(file.at("default").at("aws_access_key_id"), "a=b");
  EXPECT_EQ(file.at("default").at("s3.addressing_style"), "path");
  EXPECT_EQ(file.at("default").at("region"), "x");
  EXPECT_EQ(file.at("profile work").at("region"), "y");
  EXPECT_THAT(file, SizeIs(2));
}

TEST(S3Xml, ReadsListsAndErrors) {
  const std::string list =
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<Contents><Key>a%2Fb%3D1</Key><Size>7</Size><ETag>&quot;e&quot;</ETag>"
      "<LastModified>2026-01-31T08:15:00.250Z</LastModified></Contents>"
      "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes></ListBucketResult>";
  const auto result = ParseS3ListResult(AsBytes(list));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_THAT(result->objects, SizeIs(1));
  EXPECT_EQ(result->objects[0].key, "a/b=1");
  EXPECT_EQ(result->objects[0].bytes, 7u);
  EXPECT_EQ(result->objects[0].etag, "\"e\"");
  EXPECT_EQ(result->objects[0].modified_unix_ns, 1769847300'250'000'000);
  EXPECT_THAT(result->prefixes, ElementsAre("a/"));
  EXPECT_TRUE(result->truncated);
  const S3Error error = ParseS3Error(
      "<Error><Code>NoSuchKey</Code><Message>not\nthere</Message><Region>r</Region></Error>");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "not there");
  EXPECT_EQ(error.region, "r");
  const std::string_view upload = "<Any><UploadId>u</UploadId><Deep><ETag>e</ETag></Deep></Any>";
  EXPECT_EQ(*ParseS3Field(AsBytes(upload), "UploadId"), "u");
  EXPECT_FALSE(ParseS3Field(AsBytes(upload), "ETag").ok());
  EXPECT_FALSE(
      ParseS3Field(AsBytes(std::string_view("<Error><ETag>e</ETag></Error>")), "ETag").ok());
  EXPECT_EQ(ParseS3Error("<html>busy</html>").code, "");
}

TEST(S3Xml, RefusesWhatIsHostile) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  const std::string root = "<ListBucketResult>";
  for (const std::string& bad :
       {std::string(), std::string("{}"), root, deep, root + "</Error>",
        std::string("<Error></Error>"),
        std::string("<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult>&a;</ListBucketResult>"),
        root + "<Contents><Size>-1</Size></Contents></ListBucketResult>",
        root + "<Contents><Size>99999999999999999999</Size></Contents></ListBucketResult>",
        root + "<Contents><Key>" + std::string(100'000, 'k') +
            "</Key></Contents></ListBucketResult>"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseS3ListResult(AsBytes(bad)).status())) << bad.substr(0, 60);
  }
  for (const std::string bad : {"", "2026", "2026-13-01T00:00:00Z", "9999-01-01T00:00:00Z",
                                "2026-01-01T25:00:00Z", "2026-01-01T00:00:nanZ"}) {
    EXPECT_EQ(ParseS3Time(bad), 0) << bad;
  }
}

}  // namespace
}  // namespace pulse
