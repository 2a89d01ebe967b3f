#include "store/remote/http_session.h"

#include "store/remote/url.h"

namespace pulse {
namespace {

constexpr int kMaxRedirects = 5;

bool IsRedirect(const HttpResponse& response) {
  switch (response.status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
      return !response.Header("location").empty();
    default:
      return false;
  }
}

HttpOutcome Refused(Status status) {
  return {std::move(status), /*may_have_arrived=*/false, /*retry=*/false, {}};
}

}  // namespace

bool IsMomentary(int status) {
  switch (status) {
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    default:
      return false;
  }
}

StatusOr<HttpAnswer> HttpSession::Run(HttpExchange& exchange) {
  Retries retries(retry_, clock_, jitter_);
  HttpAnswer answer;
  for (;;) {
    PULSE_ASSIGN_OR_RETURN(HttpRequest request, exchange.Request());
    HttpOutcome outcome = SendAndFollow(std::move(request), exchange);
    const bool again =
        outcome.status.ok() ? exchange.WorthRepeating(outcome.response) : outcome.retry;
    const auto retry_after =
        ParseRetryAfterMs(outcome.response.Header("retry-after"), clock_.UnixNs());
    if (!again || !retries.WaitForNext(retry_after)) {
      if (!outcome.status.ok() && retries.attempts() > 1) {
        return Annotate(outcome.status, fmt::format("{} attempts", retries.attempts()));
      }
      PULSE_RETURN_IF_ERROR(outcome.status);
      answer.response = std::move(outcome.response);
      return answer;
    }
    // An error answer counts too: a server may have done the work and failed behind it.
    answer.earlier_may_have_happened |= outcome.status.ok() || outcome.may_have_arrived;
  }
}

HttpOutcome HttpSession::SendAndFollow(HttpRequest request, HttpBodySink& sink) {
  const bool follow = request.method == "GET" || request.method == "HEAD";
  for (int redirects = 0;; ++redirects) {
    HttpOutcome outcome = transport_->Send(request, sink);
    // A bucket's region in the answer means "you are wrong here", and the caller tells it better.
    if (!outcome.status.ok() || !follow || !IsRedirect(outcome.response) ||
        !outcome.response.Header("x-amz-bucket-region").empty()) {
      return outcome;
    }
    const std::string host = HostOf(request.url);
    if (redirects == kMaxRedirects) {
      return Refused(InvalidArgument("{} redirects more than {} times", host, kMaxRedirects));
    }
    auto next = ResolveLocation(request.url, outcome.response.Header("location"));
    if (!next.ok()) return Refused(next.status());
    if (*next == request.url + "/") return outcome;  // a folder, which is no object
    if (request.url.starts_with("https:") && !next->starts_with("https:")) {
      return Refused(InvalidArgument("{} redirects from https to http at {}", host, HostOf(*next)));
    }
    if (OriginOf(*next) != OriginOf(request.url)) {
      request.signing.reset();
      request.private_headers.clear();
    }
    request.url = *std::move(next);
  }
}

}  // namespace pulse
