#include "store/file_listing.h"

#include <algorithm>

#include "store/file_object.h"

namespace pulse {
namespace {

class Walk {
 public:
  Walk(Filesystem& fs, const std::string& root, PageBuilder& page)
      : fs_(fs), root_(root), page_(page) {}

  // folder: "" or "a/b/". True when the page is full, or when `folder` stands for all that is in it
  // and something is.
  StatusOr<bool> Visit(const std::string& folder) {
    auto entries = fs_.List(root_ + "/" + folder);
    if (!folder.empty() && absl::IsNotFound(entries.status())) return false;
    PULSE_RETURN_IF_ERROR(entries.status());
    for (const DirectoryEntry& entry : InOrderOfKeys(*std::move(entries))) {
      PULSE_ASSIGN_OR_RETURN(const bool done, VisitEntry(folder, entry));
      if (done) return true;
    }
    return false;
  }

 private:
  // A folder "a" stands where its keys "a/..." do, which is behind "a-b" and "a.b".
  static std::vector<DirectoryEntry> InOrderOfKeys(std::vector<DirectoryEntry> entries) {
    for (DirectoryEntry& entry : entries) {
      if (entry.kind == DirectoryEntry::Kind::kDirectory) entry.name += '/';
    }
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }

  StatusOr<bool> VisitEntry(const std::string& folder, const DirectoryEntry& entry) {
    std::string key = folder + entry.name;
    if (entry.kind == DirectoryEntry::Kind::kDirectory) return VisitFolder(key);
    if (entry.kind != DirectoryEntry::Kind::kFile || !CheckKey(key).ok()) return false;
    if (!page_.Wants(key)) return false;
    const bool rolled_up = !page_.RolledUp(key).empty();
    if (!page_.Add({std::move(key), entry.bytes, entry.modified_unix_ns, {}})) return full_ = true;
    return rolled_up;
  }

  StatusOr<bool> VisitFolder(const std::string& key) {
    const bool in_prefix = key.starts_with(page_.prefix()) || page_.prefix().starts_with(key);
    if (!in_prefix || BehindFolder(key) <= page_.after()) return false;
    if (!CheckKey(std::string_view(key).substr(0, key.size() - 1)).ok()) return false;
    PULSE_ASSIGN_OR_RETURN(const bool done, Visit(key));
    // Once seen to hold something, a rolled-up folder is done; those around it may be part of it.
    return full_ || (done && !page_.RolledUp(key.substr(0, key.size() - 1)).empty());
  }

  Filesystem& fs_;
  const std::string& root_;
  PageBuilder& page_;
  bool full_ = false;
};

}  // namespace

Status ListFiles(Filesystem& fs, const std::string& root, PageBuilder& page) {
  // Straight to the last folder that the prefix names in full.
  std::string folder(page.prefix().substr(0, page.prefix().rfind('/') + 1));
  if (!folder.empty()) {
    const std::string_view name = std::string_view(folder).substr(0, folder.size() - 1);
    if (!CheckKey(name).ok()) return OkStatus();  // no key starts so
    PULSE_RETURN_IF_ERROR(fs.Stat(root).status());
    PULSE_RETURN_IF_ERROR(RefuseSymlinks(fs, root, name));
  }
  return Walk(fs, root, page).Visit(folder).status();
}

}  // namespace pulse
