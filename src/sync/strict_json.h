// JSON that another process wrote: parsed with bounds, and nothing repeated.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace pulse {

using Json = nlohmann::json;

// Any JSON of ours is this deep at most; deeper nesting is refused before it can cost anything.
inline constexpr int kMaxJsonDepth = 8;

// kDataLoss ("<what>: ...") for malformed text, a repeated key, or too deep a nesting.
StatusOr<Json> ParseStrictJson(std::string_view text, std::string_view what);

// The one spelling: members in byte order, no white space, UTF-8 kept as it is. Text that is not
// UTF-8 gets U+FFFD instead; callers that write check with IsUtf8 first.
std::string CanonicalJson(const Json& json);

bool IsUtf8(const std::string& text);

// Reads members of one object; the first thing that is not as expected is remembered, so that
// callers read everything and ask once.
class JsonReader {
 public:
  // object must outlive the reader.
  JsonReader(const Json& object, std::string_view what);

  const Json& Member(const char* key);
  uint64_t Unsigned(const char* key, uint64_t max);
  std::string Text(const char* key);
  const Status& status() const { return status_; }
  void Fail(std::string_view message);

 private:
  const Json& object_;
  std::string what_;
  Status status_;
};

}  // namespace pulse
