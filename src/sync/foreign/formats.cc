#include "sync/foreign/formats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sync/foreign/hf_delta.h"
#include "sync/foreign/trl.h"

namespace pulse {
namespace {

constexpr std::array kFormats = {MakeTrlV1, MakeTrlV3, MakeHfDeltaDir};

}  // namespace

std::vector<std::string_view> ForeignFormatNames() {
  std::vector<std::string_view> names;
  for (const auto make : kFormats) names.push_back(make()->name());
  return names;
}

StatusOr<std::string> ForeignPrefix(std::string prefix) {
  while (prefix.ends_with('/')) prefix.pop_back();
  if (prefix.empty()) return prefix;
  PULSE_RETURN_IF_ERROR(Annotate(CheckKey(prefix), "prefix"));
  return prefix + "/";
}

StatusOr<ForeignChoice> ChooseForeignFormat(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view encoding =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  for (const auto make : kFormats) {
    std::shared_ptr<const ForeignFormat> format = make();
    if (format->name() != name) continue;
    const auto encodings = format->encodings();
    if (colon != std::string_view::npos &&
        std::ranges::find(encodings, encoding) == encodings.end()) {
      return InvalidArgument("format \"{}\": {} has {}", text, name,
                             encodings.empty()
                                 ? std::string("no encodings to choose from")
                                 : fmt::format("the encodings {}", fmt::join(encodings, ", ")));
    }
    return ForeignChoice{std::move(format), std::string(encoding)};
  }
  return InvalidArgument("format \"{}\": expected one of {}", text,
                         fmt::join(ForeignFormatNames(), ", "));
}

}  // namespace pulse
