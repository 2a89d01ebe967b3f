// Reads an object, or a range of one, by GET; what breaks off is resumed where it broke.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "store/remote/http_session.h"
#include "store/store.h"

namespace pulse {

// One download. Not thread-safe.
class Download final : public HttpExchange {
 public:
  // The request for the object, but for the headers Range and If-Match. Called for each attempt.
  using MakeRequest = std::function<StatusOr<HttpRequest>()>;
  // What makes an answer worth repeating; see HttpExchange.
  using IsWorthRepeating = std::function<bool(const HttpResponse&)>;

  // All of it: kResourceExhausted above max_bytes.
  static Download Whole(uint64_t max_bytes, MakeRequest make, IsWorthRepeating repeat);
  // out.size() > 0 bytes from offset: kDataLoss if the object ends before, kUnimplemented if the
  // server can't give ranges.
  static Download Range(uint64_t offset, ByteSpan out, MakeRequest make, IsWorthRepeating repeat);

  StatusOr<HttpRequest> Request() override;
  Status Start(const HttpResponse& head) override;
  Status Append(ByteView bytes) override;
  bool WorthRepeating(const HttpResponse& response) override;

  // Of an answer with status 2xx: whether all that was announced has come, and size, etag and time
  // of the object, where the server said them.
  Status Finish(const HttpResponse& response);
  const ObjectInfo& info() const { return info_; }
  Bytes TakeBytes() { return std::move(whole_); }

 private:
  Download(MakeRequest make, IsWorthRepeating repeat)
      : make_(std::move(make)), repeat_(std::move(repeat)) {}
  void StartOver();
  uint64_t got() const { return got_; }
  Status StartWhole(const HttpResponse& head);
  Status StartPart(const HttpResponse& head);

  MakeRequest make_;
  IsWorthRepeating repeat_;
  bool ranged_ = false;
  uint64_t offset_ = 0;     // of a range
  ByteSpan out_;            // of a range
  uint64_t max_bytes_ = 0;  // of a whole
  Bytes whole_;
  std::optional<uint64_t> total_;  // of a whole, where the server said it
  uint64_t got_ = 0;
  std::string etag_;  // of what was got, if it is a strong one
  ObjectInfo info_;
};

// "bytes 0-99/1234" (RFC 9110, 14.4); an unsatisfied range ("bytes */1234") is empty.
struct ContentRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // exclusive
  std::optional<uint64_t> total;
};
std::optional<ContentRange> ParseContentRange(std::string_view value);

// The value of Content-Length; nullopt without a proper one.
std::optional<uint64_t> ContentLength(const HttpResponse& response);

// Etag, and time of modification where there is one.
ObjectInfo InfoFromHeaders(const HttpResponse& response);

}  // namespace pulse
