// Signed requests to one bucket of an S3 server, and what its refusals mean.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/remote/aws_credentials.h"
#include "store/remote/download.h"
#include "store/remote/http_session.h"
#include "store/remote/s3_xml.h"

namespace pulse {

struct S3Location {
  std::string endpoint;  // "https://s3.eu-west-1.amazonaws.com", no slash at its end
  std::string region;
  std::string bucket;
  bool path_style = false;  // endpoint/bucket/key rather than bucket.endpoint/key
};

// "s3.amazonaws.com" and the like for a region.
std::string AwsEndpoint(std::string_view region);

struct S3Call {
  std::string method = "GET";
  std::string key = {};  // of the bucket, prefix and all; empty: the bucket itself
  std::map<std::string, std::string> query = {};
  std::vector<std::string> headers = {};
  ByteView body = {};
  bool conditional = false;     // never to be repeated unseen
  std::string permission = {};  // "s3:GetObject": for the message when it is missing
};

struct S3Reply {
  HttpResponse response;
  Bytes body;     // of 2xx
  S3Error error;  // of others
  bool earlier_may_have_happened = false;
};

// Thread-safe.
class S3Client {
 public:
  // credentials: null for requests without a signature (public buckets).
  S3Client(S3Location location, std::unique_ptr<AwsCredentialSource> credentials,
           std::unique_ptr<HttpSession> session);

  // Any answer, of whatever status; errors only where there was none. kResourceExhausted if the
  // body has more than max_body_bytes.
  StatusOr<S3Reply> Run(const S3Call& call, size_t max_body_bytes = 64 << 10);

  // Fills `download` from the object; the error of a status that is not 2xx.
  StatusOr<ObjectInfo> Get(const std::string& key, uint64_t max_bytes, Bytes& out);
  StatusOr<ObjectInfo> GetRange(const std::string& key, uint64_t offset, ByteSpan out);

  // What an answer that is not 2xx means, in one line that says what to do.
  Status ErrorOf(const S3Call& call, const HttpResponse& response, const S3Error& error) const;
  // The same; asks again by GET where the answer to a HEAD has no body to tell more.
  Status ErrorOf(const S3Call& call, const S3Reply& reply);

  // Takes keys and tokens out of a text that came from elsewhere.
  std::string Redacted(std::string text) const;

  Clock& clock() { return session_->clock(); }

 private:
  friend class S3Exchange;
  HttpRequest MakeRequest(const S3Call& call, const AwsCredentials* credentials) const;
  std::string UrlOf(const S3Call& call) const;
  bool WorthRepeating(const HttpResponse& response, const AwsCredentials& used);
  StatusOr<ObjectInfo> Fetch(const S3Call& call, Download& download);
  Status CredentialError(const HttpResponse& response, const S3Error& error) const;

  const S3Location location_;
  const std::unique_ptr<AwsCredentialSource> credentials_;
  const std::unique_ptr<HttpSession> session_;
};

}  // namespace pulse
