// Where a follower puts the weights: one name that readers open, exchanged at one stroke, and what
// belongs to it beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/status.h"
#include "inference_bridge/follow_state.h"
#include "store/filesystem.h"
#include "sync/version.h"

namespace pulse {

enum class OutputLayout {
  kFile,    // <path> is a safetensors file
  kFolder,  // <path> is a symlink to <path>.versions/<version>/, which has model.safetensors
};

struct OutputOptions {
  std::string path;
  OutputLayout layout = OutputLayout::kFile;
  std::string run;
  int64_t lock_timeout_ms = 0;  // how long to wait for another follower of this output to end
};

// Beside <path> lie <path>.lock (held while this object lives), <path>.state (FollowState), and for
// a while temporary files. Not thread-safe.
class Output {
 public:
  // Makes the folder of `path` if it is missing, takes the lock, removes what a killed follower
  // left, and reads the state. kAborted: another follower works here, whom the message names;
  // kFailedPrecondition: the output belongs to another run; kInvalidArgument: something is in the
  // way at `path`; kPermissionDenied; kDataLoss: the state is damaged. All deps must outlive the
  // output.
  static StatusOr<std::unique_ptr<Output>> Open(OutputOptions options, Filesystem& fs,
                                                const Clock& clock, Logger& log);

  const std::string& path() const { return options_.path; }
  OutputLayout layout() const { return options_.layout; }
  // The safetensors file that readers get now; whether it exists or not.
  std::string file() const;
  std::string spool_path() const { return options_.path + ".spool-"; }
  std::string state_path() const { return options_.path + ".state"; }

  const FollowState& state() const { return state_; }
  // Durable when OK.
  Status Remember(const VersionRef& seen);

  // Where to write the file of version `id` (replacing atomically what is there). In the file
  // layout that is already the swap; in the folder layout the version must then be Linked.
  StatusOr<std::string> Stage(const VersionId& id);
  // Makes the written version the one that readers get, durably, and removes those before the last.
  // Nothing to do in the file layout.
  Status Link(const VersionId& id);

  // Takes away what readers must not get.
  Status Remove();

 private:
  Output(OutputOptions options, Filesystem& fs, Logger& log);
  Status TakeLock(const Clock& clock);
  Status CheckPlace();
  Status RemoveLeftovers();
  Status RemoveBeginningWith(const std::string& folder, const std::vector<std::string>& beginnings);
  void RemoveVersionsExcept(const std::string& one, const std::string& other);

  OutputOptions options_;
  Filesystem& fs_;
  Logger& log_;
  std::string folder_;    // of path
  std::string name_;      // of path in it
  std::string versions_;  // folder of the folder layout
  FollowState state_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace pulse
