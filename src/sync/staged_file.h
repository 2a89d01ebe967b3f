// A file that is written beside its name and moved there when it is whole.
#pragma once

#include <memory>
#include <string>

#include "store/filesystem.h"

namespace pulse {

// Dropped before Commit() it removes what it wrote; a crash may leave "<path>.tmp-<pid>-<n>", which
// no reader takes. For one thread.
class StagedFile {
 public:
  static StatusOr<std::unique_ptr<StagedFile>> Create(Filesystem& fs, const std::string& path);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  Status Append(ByteView bytes) { return file_->Append(bytes); }
  Status Finish();  // contents are durable; no more Append
  Status Commit();  // after Finish(): replaces `path`, durably

 private:
  StagedFile(Filesystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  Filesystem& fs_;
  std::string path_;
  std::string temporary_path_;
  std::unique_ptr<WritableFile> file_;
  bool exists_ = false;  // the file at temporary_path_
  bool finished_ = false;
};

// The folder in which `path` lies.
std::string ParentFolder(const std::string& path);

}  // namespace pulse
