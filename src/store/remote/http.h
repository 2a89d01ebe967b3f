// What an HTTP exchange is to the stores: a request, an answer, and the door to the network that a
// test can replace.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// For AWS Signature Version 4.
struct AwsSigning {
  std::string access_key_id;
  std::string secret_access_key;
  std::string region;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;                        // absolute, encoded as it is to be sent
  std::vector<std::string> headers = {};  // "Name: value"
  std::vector<std::string> private_headers =
      {};                                  // the same, but for the first host alone: credentials
  std::optional<AwsSigning> signing = {};  // likewise
  ByteView body = {};                      // of PUT and POST; must outlive the exchange
  // Never on a connection used before: a client may silently repeat a request whose connection
  // turned out dead, and a conditional put must not be repeated unseen.
  bool fresh_connection = false;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string error_body;  // of a status that is not 2xx, its first 64 KiB

  bool ok() const { return status >= 200 && status < 300; }
  // Empty if there is none.
  std::string_view Header(std::string_view lower_case_name) const;
};

// Takes the body of an answer whose status is 2xx.
class HttpBodySink {
 public:
  virtual ~HttpBodySink() = default;
  // Called once, before the body, of which there may be none. An error ends the exchange.
  virtual Status Start(const HttpResponse& head) = 0;
  virtual Status Append(ByteView bytes) = 0;
};

// How an exchange ended.
struct HttpOutcome {
  Status status;                 // OK: `response` came whole, whatever its status says
  bool may_have_arrived = true;  // the request; when the status is not OK
  bool retry = false;            // trying again may help; when the status is not OK
  HttpResponse response;
};

// One attempt each; neither retries nor follows redirects. Thread-safe.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  virtual HttpOutcome Send(const HttpRequest& request, HttpBodySink& sink) = 0;
};

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7) in nanoseconds since 1970; nullopt if it is no
// date.
std::optional<int64_t> ParseHttpDate(std::string_view text);

}  // namespace pulse
