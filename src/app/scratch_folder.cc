#include "app/scratch_folder.h"

namespace pulse {
namespace {

// What can't be removed stays; the next command over the same path says so.
void RemoveTree(Filesystem& fs, const std::string& folder) {
  const auto entries = fs.List(folder);
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = folder + "/" + entry.name;
    if (entry.kind == DirectoryEntry::Kind::kDirectory) {
      RemoveTree(fs, path);
    } else {
      fs.Remove(path).IgnoreError();
    }
  }
  fs.Remove(folder).IgnoreError();
}

}  // namespace

StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make(Filesystem& fs,
                                                             const std::string& path) {
  const auto there = fs.Stat(path);
  if (there.ok()) {
    return AlreadyExists(
        "{}: left by a command that was killed, or used by one that runs: remove it, or give "
        "another --work",
        path);
  }
  if (!absl::IsNotFound(there.status())) return there.status();
  PULSE_RETURN_IF_ERROR(fs.CreateDirectories(path));
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(fs, path));
}

ScratchFolder::~ScratchFolder() {
  RemoveTree(fs_, path_);
}

}  // namespace pulse
