// Keeps one local copy of a model at the newest version that another system writes: as Follower
// does for native buckets, with the same output, record and restarts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "inference_bridge/follower.h"
#include "inference_bridge/local_copy.h"
#include "inference_bridge/output.h"
#include "store/filesystem.h"
#include "store/store.h"
#include "sync/checkpoint.h"
#include "sync/foreign/format.h"
#include "sync/foreign/rebuild.h"

namespace pulse {

struct ForeignFollowerOptions {
  std::shared_ptr<const ForeignFormat> format;
  std::string prefix = "";  // in the store: empty or ending in "/"
  std::string base = "";    // path of the receiver's own model; empty: none
  std::string output;       // see OutputLayout
  OutputLayout layout = OutputLayout::kFile;
  int64_t lock_timeout_ms = 0;                   // as FollowerOptions
  uint64_t decoder_bytes = uint64_t{128} << 20;  // as ForeignReadOptions
  std::function<void(FollowPhase phase, uint64_t done, uint64_t total)> progress = {};
  std::function<bool()> stop = {};
};

// All must outlive the follower.
struct ForeignFollowerDeps {
  Store& store;
  Filesystem& fs;
  Clock& clock;
  Logger& log;
};

// Every change is applied exactly once, whatever dies in between: a version is rebuilt beside the
// one in place and exchanged with it at one stroke, and which version a file is stands in the file,
// with its digest. A version is called epoch 1, its own number, and its view's digest as nonce. For
// one thread.
class ForeignFollower {
 public:
  // Errors are those of Output::Open, and of opening the base. Does not touch the bucket.
  static StatusOr<std::unique_ptr<ForeignFollower>> Open(ForeignFollowerOptions options,
                                                         ForeignFollowerDeps deps);

  // As Follower::Step. Each version on the way is put in place in turn. A change that is damaged
  // is gone around by a later full version, if there is one. kNotFound: nothing is there yet, or
  // what leads to the target is not.
  StatusOr<FollowResult> Step(const FollowTarget& target = {});

  const Output& output() const { return *output_; }

 private:
  ForeignFollower(ForeignFollowerOptions options, ForeignFollowerDeps deps,
                  std::unique_ptr<Output> output)
      : options_(std::move(options)), deps_(deps), output_(std::move(output)) {}
  Status RefreshLocal();
  StatusOr<uint64_t> NumberOf(const FollowTarget& target, const std::vector<ForeignMark>& marks);
  StatusOr<std::vector<ForeignMark>> WayTo(uint64_t number, const std::vector<ForeignMark>& marks,
                                           bool around);
  Status Take(const std::vector<ForeignMark>& way, FollowResult& result);
  Status Apply(const ForeignMark& mark, FollowResult& result);
  ForeignBase BaseOf(const ForeignVersion& version) const;
  FollowResult Describe(uint64_t newest) const;

  ForeignFollowerOptions options_;
  ForeignFollowerDeps deps_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<Checkpoint> base_;  // null: none
  std::unique_ptr<ModelViewSource> base_view_;
  std::unique_ptr<LocalCopy> local_;  // null: nothing usable in place
};

}  // namespace pulse
