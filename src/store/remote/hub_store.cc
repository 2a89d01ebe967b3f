#include "store/remote/hub_store.h"

#include <algorithm>

#include "store/remote/http_store.h"
#include "store/remote/s3_store.h"

namespace pulse {
namespace {

constexpr uint64_t kMaxTokenFileBytes = 4096;
constexpr const char* kSecretHint =
    "to write or list, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to S3 credentials generated "
    "from your token (huggingface.co/settings/tokens)";

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.' || c == '_';
         });
}

std::string WithoutSlashAtEnd(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

// HF_TOKEN, or what `hf auth login` left.
StatusOr<std::string> FindToken(const RemoteStoreDeps& deps) {
  std::string token = deps.environment("HF_TOKEN").value_or("");
  if (token.empty()) {
    std::string path = deps.environment("HF_TOKEN_PATH").value_or("");
    if (path.empty()) {
      const auto hub_home = deps.environment("HF_HOME");
      const auto home = deps.environment("HOME");
      if (hub_home)
        path = *hub_home + "/token";
      else if (home)
        path = *home + "/.cache/huggingface/token";
    }
    if (!path.empty()) {
      const auto bytes = ReadFile(deps.fs, path, kMaxTokenFileBytes);
      if (bytes.ok()) token = AsText(*bytes);
    }
  }
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) {
    token.pop_back();
  }
  if (std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return token;
  }
  return InvalidArgument("HF_TOKEN has characters that no token has");
}

class HubStore final : public Store {
 public:
  HubStore(std::string uri, std::unique_ptr<Store> reads, std::unique_ptr<Store> gateway)
      : uri_(std::move(uri)), reads_(std::move(reads)), gateway_(std::move(gateway)) {}

  const std::string& uri() const override { return uri_; }
  StatusOr<bool> HonoursConditions() override {
    PULSE_RETURN_IF_ERROR(NeedsGateway("publish"));
    return gateway_->HonoursConditions();
  }
  StatusOr<ObjectInfo> Stat(std::string_view key) override { return WithEtags().Stat(key); }
  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    return WithEtags().Get(key, max_bytes);
  }
  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
    return reads_->ReadAt(key, offset, out);
  }
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    PULSE_RETURN_IF_ERROR(NeedsGateway("put"));
    return gateway_->Put(key, source, condition);
  }
  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override {
    if (gateway_ == nullptr) return Unimplemented("{}: list: {}", uri_, kSecretHint);
    return gateway_->List(prefix, after, limit, delimited);
  }
  Status Delete(std::string_view key) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    PULSE_RETURN_IF_ERROR(NeedsGateway("delete"));
    return gateway_->Delete(key);
  }

 private:
  Store& WithEtags() { return gateway_ == nullptr ? *reads_ : *gateway_; }
  Status NeedsGateway(std::string_view operation) const {
    if (gateway_ != nullptr) return OkStatus();
    return PermissionDenied("{}: {}: {}", uri_, operation, kSecretHint);
  }

  const std::string uri_;
  const std::unique_ptr<Store> reads_;
  const std::unique_ptr<Store> gateway_;  // null without S3 credentials
};

}  // namespace

StatusOr<HubBucket> ParseHubBucket(const Url& url, const RemoteStoreDeps& deps) {
  HubBucket bucket;
  std::string_view path = url.path;
  std::string_view parts[2];
  for (std::string_view& part : parts) {
    if (path.starts_with('/')) path.remove_prefix(1);
    part = path.substr(0, path.find('/'));
    path.remove_prefix(part.size());
  }
  if (url.authority != "buckets" || !IsName(parts[0]) || !IsName(parts[1])) {
    return InvalidArgument("expected hf://buckets/NAMESPACE/NAME[/prefix]");
  }
  bucket.name_space = parts[0];
  bucket.name = parts[1];
  while (path.starts_with('/')) path.remove_prefix(1);
  bucket.prefix = WithoutSlashAtEnd(std::string(path));
  if (!bucket.prefix.empty()) PULSE_RETURN_IF_ERROR(CheckKey(bucket.prefix));
  bucket.endpoint =
      WithoutSlashAtEnd(deps.environment("HF_ENDPOINT").value_or("https://huggingface.co"));
  bucket.s3_endpoint =
      WithoutSlashAtEnd(deps.environment("HF_S3_ENDPOINT").value_or("https://s3.hf.co"));
  for (const std::string& endpoint : {bucket.endpoint, bucket.s3_endpoint}) {
    const auto parsed = ParseUrl(endpoint);
    if (!parsed.ok() || (parsed->scheme != "https" && parsed->scheme != "http")) {
      return InvalidArgument("HF_ENDPOINT and HF_S3_ENDPOINT: expected http(s)://host[:port]");
    }
  }
  PULSE_ASSIGN_OR_RETURN(bucket.token, FindToken(deps));
  PULSE_ASSIGN_OR_RETURN(bucket.s3_credentials, FindAwsCredentials(deps.environment, deps.fs));
  return bucket;
}

StatusOr<std::unique_ptr<Store>> OpenHubStore(HubBucket bucket, const RemoteStoreDeps& deps,
                                              std::unique_ptr<HttpSession> reading,
                                              std::unique_ptr<HttpSession> writing) {
  const std::string below = bucket.prefix.empty() ? "" : "/" + bucket.prefix;
  const std::string id = bucket.name_space + "/" + bucket.name;
  HttpStoreOptions reads;
  reads.uri = "hf://buckets/" + id + below;
  reads.base_url = bucket.endpoint + "/buckets/" + id + "/resolve/";
  reads.key_prefix = bucket.prefix.empty() ? "" : bucket.prefix + "/";
  reads.keep_slashes = false;  // as huggingface_hub asks
  reads.token = bucket.token;
  reads.token_hint = bucket.token.empty()
                         ? "a private bucket needs a token: set HF_TOKEN or run `hf auth login`"
                         : "the token of HF_TOKEN may not read it, or is no longer valid";
  const std::string uri = reads.uri;
  std::unique_ptr<Store> gateway;
  if (bucket.s3_credentials) {
    S3Location location{.endpoint = bucket.s3_endpoint + "/" + bucket.name_space,
                        .region = "us-east-1",
                        .bucket = bucket.name,
                        .path_style = true};
    const auto find = [environment = deps.environment, &fs = deps.fs] {
      return FindAwsCredentials(environment, fs);
    };
    auto client = std::make_unique<S3Client>(
        std::move(location), std::make_unique<AwsCredentialSource>(*bucket.s3_credentials, find),
        std::move(writing));
    PULSE_ASSIGN_OR_RETURN(
        gateway, OpenS3Store({.uri = uri, .prefix = bucket.prefix, .probe_seed = deps.seed},
                             std::move(client)));
  }
  return std::make_unique<HubStore>(uri, MakeHttpStore(std::move(reads), std::move(reading)),
                                    std::move(gateway));
}

}  // namespace pulse
