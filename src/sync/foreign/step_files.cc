#include "sync/foreign/step_files.h"

#include <algorithm>

namespace pulse {
namespace {

constexpr size_t kDigits = 6;
constexpr size_t kPage = 1000;  // what S3 gives at most

}  // namespace

StatusOr<std::string> SixDigits(uint64_t number) {
  if (number > kMaxSixDigits) {
    return Unimplemented("version {}: the format's names have six digits", number);
  }
  return fmt::format("{:06d}", number);
}

std::optional<uint64_t> FromSixDigits(std::string_view text) {
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (text.size() != kDigits || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  uint64_t number = 0;
  for (const char c : text) number = number * 10 + static_cast<uint64_t>(c - '0');
  return number;
}

StatusOr<ListPage> ListAbove(Store& store, const std::string& prefix, uint64_t after,
                             bool delimited) {
  ListPage all;
  if (after >= kMaxSixDigits) return all;
  // Behind every key of version `after` itself: '~' sorts behind all that a key may hold.
  std::string from = after > 0 ? fmt::format("{}{:06d}~", prefix, after) : "";
  do {
    PULSE_ASSIGN_OR_RETURN(ListPage page, store.List(prefix, from, kPage, delimited));
    if (!page.next.empty() && page.next <= from) {
      return Internal("{}: listing of \"{}\" does not advance past \"{}\"", store.uri(), prefix,
                      from);
    }
    from = std::move(page.next);
    for (ObjectInfo& object : page.objects) all.objects.push_back(std::move(object));
    for (std::string& folder : page.prefixes) all.prefixes.push_back(std::move(folder));
  } while (!from.empty());
  return all;
}

}  // namespace pulse
