#include "store/remote/url.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <memory>

namespace pulse {
namespace {

bool IsUnreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::map<std::string, std::string> DecodeQuery(std::string_view text) {
  std::map<std::string, std::string> query;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    query[PercentDecode(pair.substr(0, equals))] =
        PercentDecode(pair.substr(std::min(equals + 1, pair.size())));
  }
  return query;
}

struct CurlUrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(char* text) const { curl_free(text); }
};
using CurlUrl = std::unique_ptr<CURLU, CurlUrlDeleter>;

// Empty if the URL has no such part, or is none.
std::string PartOf(const CurlUrl& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, CurlUrlDeleter> owned(text);
  return text;
}

bool Set(const CurlUrl& url, std::string_view text) {
  return curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(), 0) == CURLUE_OK;
}

}  // namespace

std::string PercentEncode(std::string_view text, bool keep_slashes) {
  std::string encoded;
  for (const char c : text) {
    if (IsUnreserved(c) || (keep_slashes && c == '/')) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
        HexDigit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::string EncodeQuery(const std::map<std::string, std::string>& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    if (!text.empty()) text += '&';
    text += PercentEncode(name, false) + "=" + PercentEncode(value, false);
  }
  return text;
}

StatusOr<Url> ParseUrl(std::string_view text) {
  Url url;
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) {
    return InvalidArgument("a URI has the form scheme://place, and this one does not");
  }
  url.scheme = text.substr(0, scheme);
  std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view rest = text.substr(scheme + 3);
  const size_t question = std::min(rest.find('?'), rest.size());
  const std::string_view query = rest.substr(std::min(question + 1, rest.size()));
  rest = rest.substr(0, question);
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.authority = rest.substr(0, slash);
  url.path = rest.substr(slash);
  if (url.authority.find('@') != std::string::npos) {
    return InvalidArgument(
        "a {}:// URI may not hold a user name or password: credentials come "
        "from the environment",
        url.scheme);
  }
  const auto strange = [](char c) { return c <= ' ' || c > '~' || c == '#' || c == '\\'; };
  if (url.authority.empty() || std::any_of(text.begin(), text.end(), strange)) {
    return InvalidArgument(
        "the {}:// URI names no host, or has a space, a '#', or a character that "
        "is not ASCII",
        url.scheme);
  }
  url.query = DecodeQuery(query);
  return url;
}

std::string HostOf(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  return std::string(url.substr(0, url.find_first_of("/?#")));
}

std::string OriginOf(std::string_view url) {
  const CurlUrl parsed(curl_url());
  if (!Set(parsed, url)) return {};
  return PartOf(parsed, CURLUPART_SCHEME) + "://" + PartOf(parsed, CURLUPART_HOST) + ":" +
         PartOf(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

StatusOr<std::string> ResolveLocation(std::string_view base, std::string_view location) {
  const CurlUrl parsed(curl_url());
  std::string scheme;
  if (!location.empty() && Set(parsed, base) && Set(parsed, location)) {
    scheme = PartOf(parsed, CURLUPART_SCHEME);
  }
  if (scheme != "http" && scheme != "https") {
    return InvalidArgument("{} redirects to something that is no http or https URL", HostOf(base));
  }
  return PartOf(parsed, CURLUPART_URL);
}

}  // namespace pulse
