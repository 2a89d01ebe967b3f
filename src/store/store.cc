#include "store/store.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace pulse {
namespace {

constexpr size_t kMaxKeyBytes = 512;
constexpr size_t kMaxSegmentBytes = 255;  // a file name's limit nearly everywhere

bool IsKeyCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '=' || c == '-';
}

// Null if the segment is fine, otherwise what is wrong with it.
const char* FaultOfSegment(std::string_view segment) {
  if (segment.empty()) return "a segment is empty";
  if (segment == "." || segment == "..") return "a segment is \".\" or \"..\"";
  if (segment.starts_with(".tmp")) return "a segment starts with \".tmp\"";
  if (segment.size() > kMaxSegmentBytes) return "a segment has more than 255 bytes";
  if (!std::all_of(segment.begin(), segment.end(), IsKeyCharacter)) {
    return "a character is not one of [A-Za-z0-9._=-]";
  }
  return nullptr;
}

// The start of a key, fit for a message: printable, and not endless.
std::string ForMessage(std::string_view key) {
  std::string shown;
  for (const char c : key.substr(0, 80)) {
    const bool printable = c >= ' ' && c <= '~';
    shown += printable ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  if (key.size() > 80) shown += "...";
  return shown;
}

}  // namespace

Status CheckKey(std::string_view key) {
  if (key.size() > kMaxKeyBytes) {
    return InvalidArgument("key \"{}\" has {} bytes: at most {} are allowed", ForMessage(key),
                           key.size(), kMaxKeyBytes);
  }
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    if (const char* fault = FaultOfSegment(key.substr(at, end - at))) {
      return InvalidArgument("key \"{}\": {}", ForMessage(key), fault);
    }
    at = end + 1;
  }
  return OkStatus();
}

Status MemorySource::Read(uint64_t offset, ByteSpan out) const {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
    return Internal("read of {} bytes at {} from a source of {}", out.size(), offset,
                    bytes_.size());
  }
  std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
  return OkStatus();
}

StatusOr<ListPage> ListAll(Store& store, std::string_view prefix, bool delimited) {
  ListPage all;
  std::string after;
  do {
    // As much at once as the store gives: a page may cost it a whole folder.
    constexpr size_t kLimit = std::numeric_limits<size_t>::max();
    PULSE_ASSIGN_OR_RETURN(ListPage page, store.List(prefix, after, kLimit, delimited));
    if (!page.next.empty() && page.next <= after) {
      return Internal("{}: listing of \"{}\" does not advance past \"{}\"", store.uri(), prefix,
                      after);
    }
    std::move(page.objects.begin(), page.objects.end(), std::back_inserter(all.objects));
    std::move(page.prefixes.begin(), page.prefixes.end(), std::back_inserter(all.prefixes));
    after = std::move(page.next);
  } while (!after.empty());
  return all;
}

}  // namespace pulse
