// The publisher's own copy of what it published last: the base of the next diff. In files of a
// state folder, so that a restart continues; or in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "store/filesystem.h"
#include "sync/version.h"
#include "sync/view.h"

namespace pulse {

// Covers `ranges` (what this rank publishes) of one schema at a time. Not thread-safe.
class StagedBase {
 public:
  // directory: must exist; empty: keep the base in memory (lost with the process).
  StagedBase(Filesystem& fs, const kernels::KernelTable& kernels, std::string directory)
      : fs_(fs), kernels_(kernels), directory_(std::move(directory)) {}

  // Takes the base of version `id` into use if the folder has it; false if not, or if it is
  // unreadable. Whether its bytes are right is found out by digest when they are next read.
  StatusOr<bool> Load(const VersionId& id, const std::vector<TensorRange>& ranges);

  // Makes the new base durable beside the present one. Files: a full copy of the ranges, or a
  // second name for the present one with `unchanged`. Memory: nothing yet.
  Status Stage(const VersionId& id, const ViewSource& view, const std::vector<TensorRange>& ranges,
               bool unchanged);

  // The version is published: its base is the base now, and what else lies in the folder goes.
  // `view`: as staged (memory copies it only now). Errors in removing are dropped: the next call
  // tries again.
  Status Promote(const VersionId& id, const ViewSource& view,
                 const std::vector<TensorRange>& ranges);

  // Null when there is none.
  const ViewSource* view() const { return view_.get(); }
  const std::optional<VersionId>& version() const { return version_; }
  void Drop();

 private:
  std::string PathOf(const VersionId& id) const;
  Status CopyToMemory(const ViewSource& view, const std::vector<TensorRange>& ranges);
  void RemoveOthers(const VersionId& id);

  Filesystem& fs_;
  const kernels::KernelTable& kernels_;
  std::string directory_;
  std::optional<VersionId> version_;
  std::unique_ptr<const ViewSource> view_;
  Bytes memory_;
};

}  // namespace pulse
