// URLs: taken apart, put together, and shown without what is nobody's business.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/status.h"

namespace pulse {

// Everything but A-Z a-z 0-9 - . _ ~ as %XX: the canonical form of AWS Signature Version 4.
std::string PercentEncode(std::string_view text, bool keep_slashes);

// %XX, and "+" as a space. nullopt-like: what is no encoding stays as it is.
std::string PercentDecode(std::string_view text);

// "a=1&b=%20", sorted by name.
std::string EncodeQuery(const std::map<std::string, std::string>& query);

struct Url {
  std::string scheme;                        // lower case
  std::string authority;                     // host[:port]
  std::string path;                          // "" or "/..."
  std::map<std::string, std::string> query;  // decoded
};

// scheme://authority/path?query. kInvalidArgument where there is no scheme or authority, for user
// names and passwords, fragments, and characters that don't belong into a URL. The message does not
// repeat a password.
StatusOr<Url> ParseUrl(std::string_view text);

// host[:port] of an absolute URL.
std::string HostOf(std::string_view url);

// Scheme, host and port: whom one talks to.
std::string OriginOf(std::string_view url);

// Where `location`, absolute or relative, leads from `base`. kInvalidArgument if nowhere, or away
// from http and https.
StatusOr<std::string> ResolveLocation(std::string_view base, std::string_view location);

}  // namespace pulse
