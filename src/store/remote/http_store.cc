#include "store/remote/http_store.h"

#include "store/remote/download.h"
#include "store/remote/url.h"

namespace pulse {
namespace {

constexpr uint64_t kMaxObjectBytes = uint64_t{1} << 50;

// Asks for the first byte, and takes size, etag and time from the headers.
class FirstByte final : public HttpExchange {
 public:
  explicit FirstByte(HttpRequest request) : request_(std::move(request)) {
    request_.headers.push_back("Range: bytes=0-0");
  }
  StatusOr<HttpRequest> Request() override { return request_; }
  Status Start(const HttpResponse&) override { return OkStatus(); }
  // A server without ranges sends everything: enough was seen.
  Status Append(ByteView) override { return OkStatus(); }
  bool WorthRepeating(const HttpResponse& response) override {
    return IsMomentary(response.status);
  }

 private:
  HttpRequest request_;
};

std::optional<uint64_t> SizeOf(const HttpResponse& response) {
  if (response.Header("content-range").empty()) return ContentLength(response);
  const auto range = ParseContentRange(response.Header("content-range"));
  return range ? range->total : std::nullopt;
}

class HttpStore final : public Store {
 public:
  HttpStore(HttpStoreOptions options, std::unique_ptr<HttpSession> session)
      : options_(std::move(options)), session_(std::move(session)) {}

  const std::string& uri() const override { return options_.uri; }
  StatusOr<bool> HonoursConditions() override { return false; }

  StatusOr<ObjectInfo> Stat(std::string_view key) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    FirstByte exchange(RequestFor(key));
    auto answer = session_->Run(exchange);
    if (!answer.ok()) return Where(answer.status(), "stat", key);
    const HttpResponse& response = answer->response;
    if (!response.ok() && response.status != 416) {  // 416: it is empty
      return Where(ErrorOf(response, key), "stat", key);
    }
    const auto bytes = SizeOf(response);
    if (!bytes) return Where(Unimplemented("the server does not say its size"), "stat", key);
    ObjectInfo info = InfoFromHeaders(response);
    if (response.status == 416) {
      PULSE_ASSIGN_OR_RETURN(info, InfoOfEmpty(key));
    }
    info.key = key;
    info.bytes = *bytes;
    return info;
  }

  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    Download download = Download::Whole(
        max_bytes, [&]() -> StatusOr<HttpRequest> { return RequestFor(key); },
        [](const HttpResponse& response) { return IsMomentary(response.status); });
    PULSE_RETURN_IF_ERROR(Fetch(download, "get", key));
    Object object{download.info(), download.TakeBytes()};
    object.info.key = key;
    return object;
  }

  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    if (offset > kMaxObjectBytes || out.size() > kMaxObjectBytes) {
      return Where(DataLoss("no object has the bytes at {}", offset), "read", key);
    }
    if (out.empty()) {
      PULSE_ASSIGN_OR_RETURN(const ObjectInfo info, Stat(key));
      if (offset <= info.bytes) return OkStatus();
      return Where(DataLoss("it has {} bytes: can't read at {}", info.bytes, offset), "read", key);
    }
    Download download = Download::Range(
        offset, out, [&]() -> StatusOr<HttpRequest> { return RequestFor(key); },
        [](const HttpResponse& response) { return IsMomentary(response.status); });
    return Fetch(download, "read", key);
  }

  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource&, const PutCondition&) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    return Where(PermissionDenied("this kind of bucket can only be read"), "put", key);
  }

  StatusOr<ListPage> List(std::string_view, std::string_view, size_t, bool) override {
    return Unimplemented("{}: a web server gives no listing of its objects", options_.uri);
  }

  Status Delete(std::string_view key) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    return Where(PermissionDenied("this kind of bucket can only be read"), "delete", key);
  }

 private:
  Status Where(const Status& status, std::string_view operation, std::string_view key) const {
    return Annotate(status, fmt::format("{}: {} \"{}\"", options_.uri, operation, key));
  }

  HttpRequest RequestFor(std::string_view key) const {
    HttpRequest request;
    request.url = options_.base_url +
                  PercentEncode(options_.key_prefix + std::string(key), options_.keep_slashes);
    if (!options_.token.empty()) {
      request.private_headers.push_back("Authorization: Bearer " + options_.token);
    }
    return request;
  }

  Status Fetch(Download& download, std::string_view operation, std::string_view key) {
    auto answer = session_->Run(download);
    if (!answer.ok()) return Where(answer.status(), operation, key);
    const HttpResponse& response = answer->response;
    if (!response.ok() && response.status != 416) {
      return Where(ErrorOf(response, key), operation, key);
    }
    return Where(download.Finish(response), operation, key);
  }

  // The answer to an unsatisfiable range says nothing of the object but its size.
  StatusOr<ObjectInfo> InfoOfEmpty(std::string_view key) {
    PULSE_ASSIGN_OR_RETURN(Object object, Get(key, 0));
    return std::move(object.info);
  }

  Status ErrorOf(const HttpResponse& response, std::string_view key) const {
    const int status = response.status;
    const std::string host = HostOf(options_.base_url);
    const bool folder = status >= 300 && status < 400;  // the only redirect that isn't followed
    if (status == 404 || status == 410 || folder) return NotFound("no object \"{}\"", key);
    if (status == 401 || status == 403) {
      return PermissionDenied("{} answered HTTP {}: {}", host, status,
                              options_.token_hint.empty() ? "it does not let everybody read this"
                                                          : options_.token_hint);
    }
    if (status >= 500 || status == 408 || status == 429) {
      return Unavailable("{} answered HTTP {}", host, status);
    }
    return InvalidArgument("{} answered HTTP {}: is the address right?", host, status);
  }

  const HttpStoreOptions options_;
  const std::unique_ptr<HttpSession> session_;
};

}  // namespace

std::unique_ptr<Store> MakeHttpStore(HttpStoreOptions options,
                                     std::unique_ptr<HttpSession> session) {
  return std::make_unique<HttpStore>(std::move(options), std::move(session));
}

}  // namespace pulse
