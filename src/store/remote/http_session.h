// HTTP with patience: repeats what failed for the moment, and follows redirects without taking
// credentials to strangers.
#pragma once

#include <memory>

#include "core/clock.h"
#include "store/remote/http.h"
#include "store/remote/retry.h"

namespace pulse {

// 408, 425, 429, 500, 502, 503, 504: the server could not do it just now.
bool IsMomentary(int status);

// One operation, whatever number of attempts it takes: says what to send, and takes the body.
class HttpExchange : public HttpBodySink {
 public:
  // The coming attempt. It may differ from the last, say to resume.
  virtual StatusOr<HttpRequest> Request() = 0;
  // Whether an answer is worth another attempt.
  virtual bool WorthRepeating(const HttpResponse& response) = 0;
};

struct HttpAnswer {
  HttpResponse response;
  // An attempt before the one that was answered so failed in a way that leaves open whether the
  // server carried it out.
  bool earlier_may_have_happened = false;
};

// Thread-safe.
class HttpSession {
 public:
  HttpSession(std::unique_ptr<HttpTransport> transport, RetryOptions retry, uint32_t seed,
              Clock& clock)
      : transport_(std::move(transport)), retry_(retry), jitter_(seed), clock_(clock) {}

  // The last answer, of whatever status. Errors: no answer at all (kUnavailable, kDeadlineExceeded,
  // kPermissionDenied for a certificate); what the exchange itself returned; kInvalidArgument for a
  // redirect that leads nowhere, away from TLS, or in a circle.
  //
  // GET and HEAD follow redirects, five at most; to another scheme, host or port without signing
  // and private headers. A redirected write is left to the caller as an answer.
  StatusOr<HttpAnswer> Run(HttpExchange& exchange);

  Clock& clock() { return clock_; }

 private:
  HttpOutcome SendAndFollow(HttpRequest request, HttpBodySink& sink);

  const std::unique_ptr<HttpTransport> transport_;
  const RetryOptions retry_;
  Jitter jitter_;
  Clock& clock_;
};

}  // namespace pulse
