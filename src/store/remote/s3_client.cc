#include "store/remote/s3_client.h"

#include <algorithm>
#include <array>

#include "core/sha256.h"
#include "store/remote/url.h"

namespace pulse {

// One call, signed anew with each attempt.
class S3Exchange final : public HttpExchange {
 public:
  S3Exchange(S3Client& client, const S3Call& call, size_t max_body_bytes)
      : client_(client), call_(call), max_body_bytes_(max_body_bytes) {}

  StatusOr<HttpRequest> Request() override {
    if (client_.credentials_ != nullptr) used_ = client_.credentials_->Current();
    return client_.MakeRequest(call_, client_.credentials_ == nullptr ? nullptr : &used_);
  }
  Status Start(const HttpResponse&) override {
    body_.clear();
    return OkStatus();
  }
  Status Append(ByteView bytes) override {
    if (bytes.size() > max_body_bytes_ - body_.size()) {
      return ResourceExhausted("the answer has more than {} bytes", max_body_bytes_);
    }
    body_.insert(body_.end(), bytes.begin(), bytes.end());
    return OkStatus();
  }
  bool WorthRepeating(const HttpResponse& response) override {
    return client_.WorthRepeating(response, used_);
  }
  Bytes TakeBody() { return std::move(body_); }

 private:
  S3Client& client_;
  const S3Call& call_;
  const size_t max_body_bytes_;
  AwsCredentials used_;
  Bytes body_;
};

std::string AwsEndpoint(std::string_view region) {
  return fmt::format("https://s3.{}.amazonaws.com{}", region,
                     region.starts_with("cn-") ? ".cn" : "");
}

S3Client::S3Client(S3Location location, std::unique_ptr<AwsCredentialSource> credentials,
                   std::unique_ptr<HttpSession> session)
    : location_(std::move(location)),
      credentials_(std::move(credentials)),
      session_(std::move(session)) {}

std::string S3Client::UrlOf(const S3Call& call) const {
  std::string url = location_.endpoint;
  if (location_.path_style) {
    url += fmt::format("/{}", location_.bucket);
  } else {
    const size_t host = url.find("://") + 3;
    url.insert(host, location_.bucket + ".");
  }
  // A slash behind the bucket's name: a path is never empty in what is signed.
  url += fmt::format("/{}", PercentEncode(call.key, /*keep_slashes=*/true));
  if (!call.query.empty()) url += fmt::format("?{}", EncodeQuery(call.query));
  return url;
}

HttpRequest S3Client::MakeRequest(const S3Call& call, const AwsCredentials* credentials) const {
  HttpRequest request;
  request.method = call.method;
  request.url = UrlOf(call);
  request.headers = call.headers;
  request.body = call.body;
  request.fresh_connection = call.conditional;
  if (credentials != nullptr) {
    request.signing =
        AwsSigning{credentials->access_key_id, credentials->secret_access_key, location_.region};
    // Signed, so that the server refuses a body that was garbled on its way.
    request.private_headers.push_back("x-amz-content-sha256: " + Sha256Hex(call.body));
    if (!credentials->session_token.empty()) {
      request.private_headers.push_back("x-amz-security-token: " + credentials->session_token);
    }
  }
  return request;
}

bool S3Client::WorthRepeating(const HttpResponse& response, const AwsCredentials& used) {
  if (response.ok() || response.status == 404 || response.status == 412) return false;
  const S3Error error = ParseS3Error(response.error_body);
  constexpr std::array kFull = {"XMinioStorageFull", "QuotaExceeded", "InsufficientStorage",
                                "InsufficientCapacity"};
  if (std::find(kFull.begin(), kFull.end(), error.code) != kFull.end()) return false;
  constexpr std::array kMomentary = {"RequestTimeout", "SlowDown", "ConditionalRequestConflict",
                                     "OperationAborted",
                                     // What arrived is not what was signed: garbled on its way.
                                     "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody"};
  if (std::find(kMomentary.begin(), kMomentary.end(), error.code) != kMomentary.end()) return true;
  if (error.code == "ExpiredToken" || error.code == "InvalidAccessKeyId") {
    return credentials_ != nullptr && credentials_->Renew(used);
  }
  return IsMomentary(response.status);
}

StatusOr<S3Reply> S3Client::Run(const S3Call& call, size_t max_body_bytes) {
  S3Exchange exchange(*this, call, max_body_bytes);
  PULSE_ASSIGN_OR_RETURN(HttpAnswer answer, session_->Run(exchange));
  S3Reply reply;
  reply.response = std::move(answer.response);
  reply.earlier_may_have_happened = answer.earlier_may_have_happened;
  if (reply.response.ok()) {
    reply.body = exchange.TakeBody();
  } else {
    reply.error = ParseS3Error(reply.response.error_body);
  }
  return reply;
}

StatusOr<ObjectInfo> S3Client::Fetch(const S3Call& call, Download& download) {
  PULSE_ASSIGN_OR_RETURN(const HttpAnswer answer, session_->Run(download));
  if (!answer.response.ok() && answer.response.status != 416) {
    return ErrorOf(call, answer.response, ParseS3Error(answer.response.error_body));
  }
  PULSE_RETURN_IF_ERROR(download.Finish(answer.response));
  return download.info();
}

StatusOr<ObjectInfo> S3Client::Get(const std::string& key, uint64_t max_bytes, Bytes& out) {
  const S3Call call{.key = key, .permission = "s3:GetObject"};
  AwsCredentials used;
  Download download = Download::Whole(
      max_bytes,
      [&]() -> StatusOr<HttpRequest> {
        if (credentials_ != nullptr) used = credentials_->Current();
        return MakeRequest(call, credentials_ == nullptr ? nullptr : &used);
      },
      [&](const HttpResponse& response) { return WorthRepeating(response, used); });
  PULSE_ASSIGN_OR_RETURN(ObjectInfo info, Fetch(call, download));
  out = download.TakeBytes();
  return info;
}

StatusOr<ObjectInfo> S3Client::GetRange(const std::string& key, uint64_t offset, ByteSpan out) {
  const S3Call call{.key = key, .permission = "s3:GetObject"};
  AwsCredentials used;
  Download download = Download::Range(
      offset, out,
      [&]() -> StatusOr<HttpRequest> {
        if (credentials_ != nullptr) used = credentials_->Current();
        return MakeRequest(call, credentials_ == nullptr ? nullptr : &used);
      },
      [&](const HttpResponse& response) { return WorthRepeating(response, used); });
  return Fetch(call, download);
}

std::string S3Client::Redacted(std::string text) const {
  if (credentials_ == nullptr) return text;
  const AwsCredentials credentials = credentials_->Current();
  for (const std::string& secret :
       {credentials.access_key_id, credentials.secret_access_key, credentials.session_token}) {
    if (secret.empty()) continue;
    for (size_t at = 0; (at = text.find(secret, at)) != std::string::npos;) {
      text.replace(at, secret.size(), "***");
    }
  }
  return text;
}

}  // namespace pulse
