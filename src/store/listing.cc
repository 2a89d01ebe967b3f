#include "store/listing.h"

namespace pulse {

std::string_view PageBuilder::RolledUp(std::string_view key) const {
  if (!delimited_) return {};
  const size_t slash = key.find('/', prefix_.size());
  return slash == std::string_view::npos ? std::string_view() : key.substr(0, slash + 1);
}

bool PageBuilder::Full() {
  if (page_.objects.size() + page_.prefixes.size() < limit_) return false;
  page_.next = last_;
  return true;
}

bool PageBuilder::Add(ObjectInfo object) {
  if (!Wants(object.key)) return true;
  const std::string_view folder = RolledUp(object.key);
  if (folder.empty()) {
    if (Full()) return false;
    last_ = object.key;
    page_.objects.push_back(std::move(object));
    return true;
  }
  if (!page_.prefixes.empty() && page_.prefixes.back() == folder) return true;
  if (Full()) return false;
  last_ = BehindFolder(folder);
  page_.prefixes.emplace_back(folder);
  return true;
}

}  // namespace pulse
