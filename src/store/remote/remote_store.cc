#include "store/remote/remote_store.h"

#include <algorithm>
#include <array>

#include "store/remote/http_store.h"
#include "store/remote/hub_store.h"
#include "store/remote/s3_store.h"
#include "store/remote/url.h"

namespace pulse {
namespace {

// What a URI and the environment say, the URI first.
class Settings {
 public:
  Settings(const Url& url, const RemoteStoreDeps& deps) : url_(url), deps_(deps) {}

  // kInvalidArgument for an option that is not one of these.
  Status CheckOptions(std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : url_.query) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return InvalidArgument("unknown option \"{}\": expected {}", name,
                               fmt::join(known.begin(), known.end(), ", "));
      }
    }
    return OkStatus();
  }

  std::optional<std::string> Option(const std::string& name) const {
    const auto found = url_.query.find(name);
    if (found == url_.query.end()) return std::nullopt;
    return found->second;
  }

  StatusOr<std::optional<bool>> Flag(const std::string& name) const {
    const auto value = Option(name);
    if (!value) return std::optional<bool>();
    if (*value == "true" || *value == "false") return std::optional<bool>(*value == "true");
    return InvalidArgument("option {} is \"{}\": expected true or false", name, *value);
  }

  // The first variable that is set.
  std::optional<std::string> Environment(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (auto value = deps_.environment(name)) return value;
    }
    return std::nullopt;
  }

 private:
  const Url& url_;
  const RemoteStoreDeps& deps_;
};

std::string WithoutSlashAtEnd(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

std::string PrefixOf(std::string_view path) {
  while (path.starts_with('/')) path.remove_prefix(1);
  return WithoutSlashAtEnd(std::string(path));
}

StatusOr<std::unique_ptr<HttpSession>> MakeSession(const Settings& settings,
                                                   const RemoteStoreDeps& deps,
                                                   RemoteStoreOptions options) {
  const auto ca = settings.Option("ca");
  const auto from_environment =
      settings.Environment({"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  if (ca)
    options.http.ca_file = *ca;
  else if (from_environment)
    options.http.ca_file = *from_environment;
  PULSE_ASSIGN_OR_RETURN(auto transport, MakeCurlTransport(std::move(options.http)));
  return std::make_unique<HttpSession>(std::move(transport), options.retry,
                                       static_cast<uint32_t>(deps.seed), deps.clock);
}

StatusOr<std::string> CheckEndpoint(const std::string& endpoint) {
  auto url = ParseUrl(endpoint);
  if (!url.ok() || (url->scheme != "http" && url->scheme != "https") || !url->query.empty()) {
    return InvalidArgument("endpoint \"{}\": expected http(s)://host[:port]",
                           url.ok() ? endpoint : "(hidden)");
  }
  return WithoutSlashAtEnd(endpoint);
}

Status CheckBucket(std::string_view bucket) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  };
  if (bucket.size() >= 3 && bucket.size() <= 63 && bucket.find("..") == std::string_view::npos &&
      std::all_of(bucket.begin(), bucket.end(), good)) {
    return OkStatus();
  }
  return InvalidArgument("\"{}\" is no bucket name: expected 3 to 63 of [A-Za-z0-9._-]",
                         bucket.substr(0, 80));
}

StatusOr<S3Location> LocateBucket(const Settings& settings, const Url& url,
                                  const RemoteStoreDeps& deps) {
  S3Location location;
  location.bucket = url.authority;
  PULSE_RETURN_IF_ERROR(CheckBucket(location.bucket));
  PULSE_ASSIGN_OR_RETURN(const AwsProfile profile, AwsProfile::Load(deps.environment, deps.fs));
  auto region = settings.Option("region");
  if (!region) region = settings.Environment({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (!region) region = profile.Get("region");
  location.region = region.value_or("us-east-1");
  if (!std::all_of(location.region.begin(), location.region.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      })) {
    return InvalidArgument("\"{}\" is no region: expected something like eu-west-1",
                           location.region);
  }
  auto endpoint = settings.Option("endpoint");
  if (!endpoint) endpoint = settings.Environment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (!endpoint) endpoint = profile.Get("endpoint_url");
  PULSE_ASSIGN_OR_RETURN(const auto path_style, settings.Flag("path_style"));
  PULSE_ASSIGN_OR_RETURN(location.endpoint,
                         CheckEndpoint(endpoint.value_or(AwsEndpoint(location.region))));
  // Own servers seldom have a name for each bucket; and a dot in one breaks the TLS certificate.
  const bool default_path_style = endpoint || location.bucket.find('.') != std::string::npos ||
                                  profile.Get("s3.addressing_style") == "path";
  location.path_style = path_style.value_or(default_path_style);
  return location;
}

StatusOr<std::unique_ptr<Store>> OpenS3(const Url& url, const RemoteStoreDeps& deps,
                                        const RemoteStoreOptions& options) {
  const Settings settings(url, deps);
  PULSE_RETURN_IF_ERROR(
      settings.CheckOptions({"endpoint", "region", "path_style", "ca", "anonymous"}));
  PULSE_ASSIGN_OR_RETURN(S3Location location, LocateBucket(settings, url, deps));
  PULSE_ASSIGN_OR_RETURN(const auto anonymous, settings.Flag("anonymous"));
  std::unique_ptr<AwsCredentialSource> credentials;
  if (!anonymous.value_or(false)) {
    const auto find = [environment = deps.environment, &fs = deps.fs] {
      return FindAwsCredentials(environment, fs);
    };
    PULSE_ASSIGN_OR_RETURN(const auto found, find());
    if (!found) {
      return PermissionDenied(
          "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for a "
          "public bucket say ?anonymous=true");
    }
    credentials = std::make_unique<AwsCredentialSource>(*found, find);
  }
  PULSE_ASSIGN_OR_RETURN(auto session, MakeSession(settings, deps, options));
  S3StoreOptions store;
  store.prefix = PrefixOf(url.path);
  store.uri = "s3://" + location.bucket + (store.prefix.empty() ? "" : "/" + store.prefix);
  store.probe_seed = deps.seed;
  return OpenS3Store(
      std::move(store),
      std::make_unique<S3Client>(std::move(location), std::move(credentials), std::move(session)));
}

StatusOr<std::unique_ptr<Store>> OpenHttp(const Url& url, const RemoteStoreDeps& deps,
                                          const RemoteStoreOptions& options) {
  const Settings settings(url, deps);
  PULSE_RETURN_IF_ERROR(settings.CheckOptions({"ca"}));
  PULSE_ASSIGN_OR_RETURN(auto session, MakeSession(settings, deps, options));
  HttpStoreOptions store;
  store.uri = WithoutSlashAtEnd(url.scheme + "://" + url.authority + url.path);
  store.base_url = store.uri + "/";
  return MakeHttpStore(std::move(store), std::move(session));
}

StatusOr<std::unique_ptr<Store>> OpenHub(const Url& url, const RemoteStoreDeps& deps,
                                         const RemoteStoreOptions& options) {
  const Settings settings(url, deps);
  PULSE_RETURN_IF_ERROR(settings.CheckOptions({"ca"}));
  PULSE_ASSIGN_OR_RETURN(HubBucket bucket, ParseHubBucket(url, deps));
  PULSE_ASSIGN_OR_RETURN(auto reading, MakeSession(settings, deps, options));
  std::unique_ptr<HttpSession> writing;
  PULSE_ASSIGN_OR_RETURN(writing, MakeSession(settings, deps, options));
  return OpenHubStore(std::move(bucket), deps, std::move(reading), std::move(writing));
}

}  // namespace

bool IsRemoteUri(std::string_view uri) {
  constexpr std::array kSchemes = {"s3://", "http://", "https://", "hf://"};
  return std::any_of(kSchemes.begin(), kSchemes.end(),
                     [&](std::string_view scheme) { return uri.starts_with(scheme); });
}

StatusOr<std::unique_ptr<Store>> OpenRemoteStore(std::string_view uri, const RemoteStoreDeps& deps,
                                                 RemoteStoreOptions options) {
  // Without options and what may be credentials.
  const std::string shown(uri.substr(0, uri.find('?')).substr(0, 200));
  auto url = ParseUrl(uri);
  if (!url.ok()) return Annotate(url.status(), "bucket");
  StatusOr<std::unique_ptr<Store>> store = url->scheme == "s3"   ? OpenS3(*url, deps, options)
                                           : url->scheme == "hf" ? OpenHub(*url, deps, options)
                                                                 : OpenHttp(*url, deps, options);
  if (!store.ok()) return Annotate(store.status(), fmt::format("bucket {}", shown));
  return store;
}

}  // namespace pulse
