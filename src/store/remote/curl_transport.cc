#include "store/remote/curl_transport.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>

#include "store/remote/curl_status.h"
#include "store/remote/url.h"

namespace pulse {
namespace {

constexpr size_t kMaxErrorBodyBytes = 64 << 10;
constexpr long kStallBytesPerSecond = 1;

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Handle = std::unique_ptr<CURL, CurlDeleter>;
using HeaderList = std::unique_ptr<curl_slist, CurlDeleter>;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// One attempt, as its callbacks see it.
struct Attempt {
  CURL* handle = nullptr;
  HttpBodySink* sink = nullptr;
  HttpResponse response;
  bool started = false;  // the sink
  Status sink_status;

  // The sink is told of an answer once its headers are complete.
  bool StartSink() {
    if (started) return sink_status.ok();
    started = true;
    sink_status = sink->Start(response);
    return sink_status.ok();
  }

  static size_t OnHeader(char* data, size_t, size_t size, void* self) {
    auto& attempt = *static_cast<Attempt*>(self);
    const std::string_view line(data, size);
    if (line.starts_with("HTTP/")) {  // also of the answer behind a "100 Continue"
      attempt.response = {};
      return size;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return size;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    attempt.response.headers[name] = std::string(Trimmed(line.substr(colon + 1)));
    return size;
  }

  static size_t OnBody(char* data, size_t, size_t size, void* self) {
    auto& attempt = *static_cast<Attempt*>(self);
    attempt.ReadStatus();
    if (!attempt.response.ok()) {
      std::string& body = attempt.response.error_body;
      body.append(data, std::min(size, kMaxErrorBodyBytes - body.size()));
      return body.size() < kMaxErrorBodyBytes ? size : 0;
    }
    if (!attempt.StartSink()) return 0;
    attempt.sink_status = attempt.sink->Append(AsBytes(std::string_view(data, size)));
    return attempt.sink_status.ok() ? size : 0;
  }

  void ReadStatus() {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
  }
};

class CurlTransport final : public HttpTransport {
 public:
  explicit CurlTransport(HttpOptions options) : options_(std::move(options)) {}

  HttpOutcome Send(const HttpRequest& request, HttpBodySink& sink) override {
    Handle handle = TakeHandle();
    if (handle == nullptr) {
      return {ResourceExhausted("out of memory in libcurl"), false, false, {}};
    }
    Attempt attempt{.handle = handle.get(), .sink = &sink, .response = {}, .sink_status = {}};
    std::array<char, CURL_ERROR_SIZE> detail{};
    const HeaderList headers = SetUp(request, attempt, detail.data());
    const CURLcode code = curl_easy_perform(handle.get());
    attempt.ReadStatus();
    HttpOutcome outcome = Judge(request, code, detail.data(), attempt);
    curl_easy_reset(handle.get());  // keeps its connections
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(handle));
    return outcome;
  }

 private:
  Handle TakeHandle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return Handle(curl_easy_init());
    Handle handle = std::move(idle_.back());
    idle_.pop_back();
    return handle;
  }

  HeaderList SetUp(const HttpRequest& request, Attempt& attempt, char* detail) {
    CURL* h = attempt.handle;
    curl_easy_setopt(h, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    // One connection carries one request at a time: parallel ranges are parallel connections.
    curl_easy_setopt(h, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(h, CURLOPT_USERAGENT, "pulseloco");
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout_ms));
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.request_timeout_ms));
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME,
                     static_cast<long>(std::max<int64_t>(1, options_.stall_timeout_ms / 1000)));
    if (!options_.ca_file.empty()) curl_easy_setopt(h, CURLOPT_CAINFO, options_.ca_file.c_str());
    if (request.fresh_connection) curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, &Attempt::OnHeader);
    curl_easy_setopt(h, CURLOPT_HEADERDATA, &attempt);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, &Attempt::OnBody);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, &attempt);
    SetUpMethod(request, h);
    if (request.signing) {
      curl_easy_setopt(h, CURLOPT_AWS_SIGV4,
                       fmt::format("aws:amz:{}:s3", request.signing->region).c_str());
      curl_easy_setopt(h, CURLOPT_USERNAME, request.signing->access_key_id.c_str());
      curl_easy_setopt(h, CURLOPT_PASSWORD, request.signing->secret_access_key.c_str());
    }
    return SetUpHeaders(request, h);
  }

  static void SetUpMethod(const HttpRequest& request, CURL* h) {
    if (request.method == "HEAD") {
      curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      curl_easy_setopt(h, CURLOPT_POST, 1L);
      curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
      // Null would ask for a read callback.
      curl_easy_setopt(
          h, CURLOPT_POSTFIELDS,
          request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
    }
    // Bodies are not held back for a "100 Continue", a round trip. The header that asks for one
    // can't be taken away: libcurl 7.88 would sign it all the same.
    curl_easy_setopt(h, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    if (request.method == "PUT" || request.method == "DELETE") {
      curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
  }

  static HeaderList SetUpHeaders(const HttpRequest& request, CURL* h) {
    HeaderList list;
    const auto add = [&list](const std::string& header) {
      list.reset(curl_slist_append(list.release(), header.c_str()));
    };
    for (const std::string& header : request.headers) add(header);
    for (const std::string& header : request.private_headers) add(header);
    if (request.method == "PUT" || request.method == "POST") {
      add("Content-Type: application/octet-stream");
    }
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, list.get());
    return list;
  }

  static HttpOutcome Judge(const HttpRequest& request, CURLcode code, const char* detail,
                           Attempt& attempt) {
    HttpOutcome outcome;
    long sent = 0;
    curl_easy_getinfo(attempt.handle, CURLINFO_REQUEST_SIZE, &sent);
    outcome.may_have_arrived = sent > 0;
    const bool cut_error_body = attempt.response.error_body.size() >= kMaxErrorBodyBytes;
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && cut_error_body)) {
      if (attempt.response.ok()) attempt.StartSink();
    } else if (attempt.sink_status.ok()) {
      CurlFailure failure = TranslateCurlFailure(code, detail, HostOf(request.url));
      outcome.status = std::move(failure.status);
      outcome.retry = failure.retry;
    }
    if (outcome.status.ok()) outcome.status = attempt.sink_status;
    outcome.response = std::move(attempt.response);
    return outcome;
  }

  const HttpOptions options_;
  std::mutex mutex_;
  std::vector<Handle> idle_;  // guarded by mutex_
};

}  // namespace

std::string_view HttpResponse::Header(std::string_view lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<int64_t> ParseHttpDate(std::string_view text) {
  const time_t seconds = curl_getdate(std::string(text).c_str(), nullptr);
  if (seconds == -1) return std::nullopt;
  return int64_t{seconds} * 1'000'000'000;
}

StatusOr<std::unique_ptr<HttpTransport>> MakeCurlTransport(HttpOptions options) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) return Internal("libcurl: {}", curl_easy_strerror(initialised));
  return std::make_unique<CurlTransport>(std::move(options));
}

}  // namespace pulse
