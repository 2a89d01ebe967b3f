// A folder for temporary files that is made, and removed with all that is in it.
#pragma once

#include <memory>
#include <string>

#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

class ScratchFolder {
 public:
  // kAlreadyExists if something is at `path`: a killed command leaves it behind.
  static StatusOr<std::unique_ptr<ScratchFolder>> Make(Filesystem& fs, const std::string& path);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  ScratchFolder(Filesystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  Filesystem& fs_;
  std::string path_;
};

}  // namespace pulse
