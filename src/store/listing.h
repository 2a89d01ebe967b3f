// Builds one page of Store::List from objects that arrive in ascending order of key.
#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

namespace pulse {

// Greater than every key that starts with `folder` ("a/"), and not greater than any key behind
// them:
// '~' sorts behind every character of a key.
inline std::string BehindFolder(std::string_view folder) {
  return std::string(folder) + "~";
}

class PageBuilder {
 public:
  // The arguments of Store::List; limit > 0.
  PageBuilder(std::string_view prefix, std::string_view after, size_t limit, bool delimited)
      : prefix_(prefix), after_(after), limit_(limit), delimited_(delimited) {}

  std::string_view prefix() const { return prefix_; }
  std::string_view after() const { return after_; }

  // Whether `key` is listed at all, on this page or a later one.
  bool Wants(std::string_view key) const { return key.starts_with(prefix_) && key > after_; }

  // The folder ("a/b/") that stands for `key` in this listing; empty where it stands for itself.
  std::string_view RolledUp(std::string_view key) const;

  // Takes the next object; unwanted ones are ignored. False once the page is full and `object` is
  // not on it: then nothing more need be offered.
  bool Add(ObjectInfo object);

  ListPage Take() { return std::move(page_); }

 private:
  bool Full();

  std::string prefix_, after_;
  size_t limit_;
  bool delimited_;
  std::string last_;  // what `next` is if the page ends here
  ListPage page_;
};

}  // namespace pulse
