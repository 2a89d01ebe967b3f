// metrics.jsonl: what happened in a run, one JSON record a line, in order and each once, however
// often the run was killed and resumed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

// Used by one thread.
class MetricsFile {
 public:
  // A new file; kAlreadyExists.
  static StatusOr<std::unique_ptr<MetricsFile>> Create(Filesystem& fs, const std::string& path);

  // Continues the file (made if missing) behind round `round` of a run of `rounds`: what was
  // recorded of later rounds goes, since they will be recorded again, and so do the end and the
  // final evaluation of a run that goes on. All or nothing. kDataLoss for a line, other than the
  // last, that is no record.
  static StatusOr<std::unique_ptr<MetricsFile>> Continue(Filesystem& fs, const std::string& path,
                                                         uint64_t round, uint64_t rounds);

  // line: one JSON record.
  Status Append(const std::string& line);
  Status Sync() { return file_->Sync(); }
  Status Close();  // synced

 private:
  explicit MetricsFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  std::unique_ptr<WritableFile> file_;
};

// The lines that Continue keeps.
StatusOr<std::string> KeptRecords(std::string_view text, uint64_t round, uint64_t rounds);

// How many rounds a file has records of; 0 if there is no file.
StatusOr<uint64_t> RecordedRounds(Filesystem& fs, const std::string& path);

}  // namespace pulse
