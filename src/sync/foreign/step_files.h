// Numbers in the names of versions, and listing them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"
#include "store/store.h"

namespace pulse {

// A million versions are years of training; keys of one length sort by number.
inline constexpr uint64_t kMaxSixDigits = 999'999;

// "000017". kUnimplemented above kMaxSixDigits.
StatusOr<std::string> SixDigits(uint64_t number);
// nullopt unless `text` is six digits.
std::optional<uint64_t> FromSixDigits(std::string_view text);

// What begins with `prefix` and has a number above `after` behind it, ascending by key: all pages.
// delimited: as in Store::List.
StatusOr<ListPage> ListAbove(Store& store, const std::string& prefix, uint64_t after,
                             bool delimited);

}  // namespace pulse
