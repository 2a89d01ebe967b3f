// What S3 servers refuse, and what to do about it.
#include <algorithm>
#include <array>
#include <cmath>

#include "store/remote/s3_client.h"
#include "store/remote/url.h"

namespace pulse {
namespace {

bool IsOneOf(std::string_view code, std::initializer_list<std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

}  // namespace

// OK if the answer is about something else.
Status S3Client::CredentialError(const HttpResponse& response, const S3Error& error) const {
  const std::string origin = credentials_ == nullptr ? "" : credentials_->Current().origin;
  if (IsOneOf(error.code, {"InvalidAccessKeyId"})) {
    return PermissionDenied(
        "{} does not know the access key id of {}: check AWS_ACCESS_KEY_ID and "
        "whether the key is for this server",
        HostOf(location_.endpoint), origin);
  }
  if (error.code == "SignatureDoesNotMatch") {
    return PermissionDenied(
        "{} does not accept the signature: the secret access key of {} is "
        "wrong (AWS_SECRET_ACCESS_KEY)",
        HostOf(location_.endpoint), origin);
  }
  if (IsOneOf(error.code, {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired",
                           "RequestExpired"})) {
    return PermissionDenied("the session token of {} has expired: get new credentials", origin);
  }
  if (error.code == "InvalidToken") {
    return PermissionDenied(
        "the session token of {} is not valid: AWS_SESSION_TOKEN must be of the "
        "same set as the keys, and unset where they need none",
        origin);
  }
  if (error.code == "RequestTimeTooSkewed") {
    const int64_t here = session_->clock().UnixNs();
    const auto there = ParseHttpDate(response.Header("date"));
    return PermissionDenied(
        "this machine's clock is off{}: set it (timedatectl set-ntp true)",
        there ? fmt::format(" by {} s from the server's",
                            std::llround(static_cast<double>(here - *there) / 1e9))
              : "");
  }
  return OkStatus();
}

Status S3Client::ErrorOf(const S3Call& call, const HttpResponse& response,
                         const S3Error& error) const {
  const int status = response.status;
  const std::string& bucket = location_.bucket;
  const std::string host = HostOf(location_.endpoint);
  const std::string said =
      error.code.empty() ? fmt::format("HTTP {}", status)
                         : Redacted(fmt::format("{} {}: {}", status, error.code, error.message));
  PULSE_RETURN_IF_ERROR(CredentialError(response, error));
  std::string region(response.Header("x-amz-bucket-region"));
  if (region.empty()) region = error.region;
  const bool wrong_region = (status == 301 || status == 307 || status == 400) && !region.empty() &&
                            region != location_.region;
  if (wrong_region || IsOneOf(error.code, {"PermanentRedirect", "AuthorizationHeaderMalformed",
                                           "IllegalLocationConstraintException"})) {
    return InvalidArgument(
        "bucket {} is {}, requests were signed for {}: set AWS_REGION or ?region=", bucket,
        region.empty() ? "in another region" : "in region " + region, location_.region);
  }
  if (error.code == "NoSuchBucket") {
    return NotFound("no bucket {} at {}: create it, or check name and endpoint", bucket, host);
  }
  if (error.code == "InvalidBucketName") {
    return InvalidArgument("{} does not allow the bucket name {}", host, bucket);
  }
  if (status == 404) return NotFound("no object \"{}\"", call.key);
  if (status == 507 || IsOneOf(error.code, {"XMinioStorageFull", "QuotaExceeded",
                                            "InsufficientStorage", "InsufficientCapacity"})) {
    return ResourceExhausted("the server has no space left ({}): free some, or run gc", said);
  }
  if (status == 401 || status == 403) {
    return PermissionDenied("no permission ({}): {}{}", said,
                            credentials_ == nullptr ? "there are no credentials, and this bucket "
                                                      "wants some; set AWS_ACCESS_KEY_ID, or allow "
                                                    : "allow ",
                            call.permission + " for " + bucket);
  }
  if (status == 501 || error.code == "NotImplemented") {
    return Unimplemented("{} can't do this ({})", host, said);
  }
  if (status >= 500 || status == 408 || status == 429 || status == 409) {
    return Unavailable("{} answered {}", host, said);
  }
  if (status >= 300 && status < 400) {
    return InvalidArgument("{} sends requests elsewhere ({}, to {}): set ?endpoint= to that", host,
                           said, HostOf(response.Header("location")));
  }
  return InvalidArgument("{} refused the request ({})", host, said);
}

Status S3Client::ErrorOf(const S3Call& call, const S3Reply& reply) {
  if (call.method != "HEAD") return ErrorOf(call, reply.response, reply.error);
  S3Call again = call;
  again.method = "GET";
  again.headers.push_back("Range: bytes=0-0");
  PULSE_ASSIGN_OR_RETURN(const S3Reply told, Run(again));
  if (!told.response.ok()) return ErrorOf(call, told.response, told.error);
  return ErrorOf(call, reply.response, reply.error);  // it changed its mind
}

}  // namespace pulse
