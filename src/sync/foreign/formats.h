// The list of formats.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sync/foreign/format.h"

namespace pulse {

std::vector<std::string_view> ForeignFormatNames();

// A format and the way in which changes are written.
struct ForeignChoice {
  std::shared_ptr<const ForeignFormat> format;
  std::string encoding;  // empty: the default
};

// What a user gives as a prefix in a store, as the formats take it: empty, or keys ending in "/".
// kInvalidArgument if no key can begin so.
StatusOr<std::string> ForeignPrefix(std::string prefix);

// "trl-v3", or with an encoding "trl-v3:raw". kInvalidArgument names those that there are.
StatusOr<ForeignChoice> ChooseForeignFormat(std::string_view text);

}  // namespace pulse
