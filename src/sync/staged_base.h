// What the publisher published last: the base of the next diff. A copy in files of a state folder,
// so that a restart continues; a copy in memory; or no copy: read from the bucket whenever it is
// needed.
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

enum class BaseKeeping { kCopy, kInBucket };

// Covers what one rank publishes: `ranges` in every call, empty for the whole model. Not
// thread-safe.
class StagedBase {
 public:
  // directory: must exist; empty: keep the base in memory, as one more copy of the ranges, or with
  // kInBucket nowhere: then there is none behind Promote until Use.
  StagedBase(Filesystem& fs, const kernels::KernelTable& kernels, std::string directory,
             BaseKeeping keeping = BaseKeeping::kCopy);
  ~StagedBase();

  // Takes the base of version `id` into use if it is there and readable; else false. Whether its
  // bytes are right is found out by digest when they are next read.
  bool Load(const VersionId& id, const std::vector<TensorRange>& ranges);

  // Makes the base of version `id` durable beside the present one: a full copy, or with `unchanged`
  // a second name for the present one. In memory there is nothing to be done yet.
  Status Stage(const VersionId& id, const ViewSource& view, const std::vector<TensorRange>& ranges,
               bool unchanged);

  // The version is published: its base is the base now, and all others in the folder go. view: as
  // staged; it may lie over the present base (memory is overwritten cell by cell, each read
  // before). On an error there is no base any more.
  Status Promote(const VersionId& id, const ViewSource& view,
                 const std::vector<TensorRange>& ranges);

  bool keeps_copy() const { return keeping_ == BaseKeeping::kCopy || !directory_.empty(); }
  // Takes a view of version `id` that lies elsewhere into use.
  void Use(const VersionId& id, std::unique_ptr<const ViewSource> view);

  // Removes what crashed attempts left in the folder, but not the base of `keep`. Errors are
  // dropped: the next call tries again.
  void RemoveLeftovers(const std::optional<VersionId>& keep);

  void Drop();

  // Null when there is none.
  const ViewSource* view() const { return view_.get(); }
  const std::optional<VersionId>& version() const { return version_; }

 private:
  class Held;  // ranges in memory

  std::string PathOf(const VersionId& id) const;
  StatusOr<std::unique_ptr<const ViewSource>> OpenFile(const VersionId& id,
                                                       const std::vector<TensorRange>& ranges);
  Status PromoteInMemory(const ViewSource& view, const std::vector<TensorRange>& ranges);

  Filesystem& fs_;
  const kernels::KernelTable& kernels_;
  std::string directory_;
  BaseKeeping keeping_;
  std::optional<VersionId> version_;
  std::unique_ptr<const ViewSource> view_;
  Held* held_ = nullptr;  // view_, when it is in memory
};

}  // namespace pulse
