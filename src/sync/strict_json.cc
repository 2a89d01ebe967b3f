#include "sync/strict_json.h"

#include <set>
#include <vector>

namespace pulse {
namespace {

const Json kNullJson;

}  // namespace

StatusOr<Json> ParseStrictJson(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> open;  // the keys of each object that is open
  std::string problem;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (!problem.empty()) return false;
    if (depth > kMaxJsonDepth) problem = "nested too deeply";
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key &&
        !open.back().insert(parsed.get<std::string>()).second) {
      problem = fmt::format("key \"{}\" appears twice", parsed.get<std::string>());
    }
    return problem.empty();
  };
  Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (!problem.empty()) return DataLoss("{}: {}", what, problem);
  if (json.is_discarded()) return DataLoss("{}: not valid JSON", what);
  return json;
}

std::string CanonicalJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsUtf8(const std::string& text) {
  // The serializer is the judge, so that this is exactly what it would write unchanged.
  const std::string replaced = CanonicalJson(Json(text));
  const Json back = Json::parse(replaced, nullptr, false);
  return back.is_string() && back.get_ref<const std::string&>() == text;
}

JsonReader::JsonReader(const Json& object, std::string_view what) : object_(object), what_(what) {
  if (!object.is_object()) Fail("not a JSON object");
}

void JsonReader::Fail(std::string_view message) {
  if (status_.ok()) status_ = DataLoss("{}: {}", what_, message);
}

const Json& JsonReader::Member(const char* key) {
  const auto at = object_.is_object() ? object_.find(key) : object_.end();
  if (at != object_.end()) return *at;
  Fail(fmt::format("no member \"{}\"", key));
  return kNullJson;
}

uint64_t JsonReader::Unsigned(const char* key, uint64_t max) {
  const Json& value = Member(key);
  if (value.is_number_unsigned() && value.get<uint64_t>() <= max) return value.get<uint64_t>();
  Fail(fmt::format("\"{}\" is not a whole number from 0 to {}", key, max));
  return 0;
}

std::string JsonReader::Text(const char* key) {
  const Json& value = Member(key);
  if (value.is_string()) return value.get<std::string>();
  Fail(fmt::format("\"{}\" is not text", key));
  return {};
}

}  // namespace pulse
