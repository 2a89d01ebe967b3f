// Keeps one local copy of a run's view at the version that its bucket names: fetches, verifies,
// rebuilds beside the copy that readers have open, and exchanges the two at one stroke.
//
// Killed at any instruction, or failing at any operation, it leaves the old version or the new one
// in place, whole; the next Open continues or starts over. It never goes back to an older version.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "inference_bridge/local_copy.h"
#include "inference_bridge/output.h"
#include "kernels/kernels.h"
#include "store/filesystem.h"
#include "store/store.h"
#include "sync/chain.h"

namespace pulse {

enum class FollowPhase { kVerify, kFetch, kRebuild };

struct FollowerOptions {
  std::string run = "main";
  std::string trusted_key = "";  // 64 hexadecimal digits; when set, unsigned versions are refused
  std::string output;            // see OutputLayout
  OutputLayout layout = OutputLayout::kFile;
  int64_t lock_timeout_ms = 0;  // how long to wait for another follower of this output to end
  // Bound of anonymous memory: fetched payloads as far as they fit beside the working buffers
  // (others go through temporary files beside the output), whatever the size of the view.
  uint64_t memory_bytes = uint64_t{512} << 20;
  int parallel_fetches = 8;
  int threads = 2;  // of the rebuild
  // Called by the thread that called Step: bytes done of bytes to do in this phase (kVerify: 0 of
  // the whole, once).
  std::function<void(FollowPhase phase, uint64_t done, uint64_t total)> progress = {};
  // Asked every few MiB; true ends Step with kCancelled, the old version in place.
  std::function<bool()> stop = {};
};

// All must outlive the follower.
struct FollowerDeps {
  Store& store;
  Filesystem& fs;
  Clock& clock;
  const kernels::KernelTable& kernels;
  Logger& log;
};

// Which version a step is to bring.
struct FollowTarget {
  enum class Kind { kNewest, kNext, kNumber };
  Kind kind = Kind::kNewest;
  uint64_t number = 0;

  static FollowTarget Newest() { return {}; }
  // The oldest kept version above the local one (the oldest of all without a local one): every
  // version in turn, but for those that retention has taken meanwhile.
  static FollowTarget Next() { return {Kind::kNext, 0}; }
  static FollowTarget Number(uint64_t number) { return {Kind::kNumber, number}; }
};

// What is in place after a step.
struct FollowResult {
  VersionRef version;
  Digest digest;  // of the view: as the publisher computed it, and as rebuilt here
  int64_t created_unix_ms = 0;
  std::map<std::string, std::string> metadata;  // the publisher's own words
  uint64_t newest = 0;                          // number of the head's version

  // What the step did; all zero when the version was in place already.
  bool changed = false;
  bool from_anchor = false;  // else over the version that was in place
  uint64_t versions = 0;     // payloads applied, an anchor included
  uint64_t objects = 0;      // fetched, with their bytes
  uint64_t bytes = 0;
  uint64_t view_bytes = 0;
  double plan_seconds = 0;
  double fetch_seconds = 0;
  double rebuild_seconds = 0;
  double swap_seconds = 0;
};

// One thread at a time.
class Follower {
 public:
  // Errors are those of Output::Open, and kInvalidArgument for options. Does not touch the bucket.
  static StatusOr<std::unique_ptr<Follower>> Open(FollowerOptions options, FollowerDeps deps);

  // Brings the output to the target. One read of the head when it is there already; the first step
  // also reads the output to see whether it is what it claims to be, and so does the first one
  // after something else has changed it. After an error the old version is in place, and the next
  // Step tries again.
  //   kNotFound            no such run, version, or nothing published yet
  //   kFailedPrecondition  the bucket is behind what this output has seen, or another history; or
  //   the
  //                        target is behind the output's version
  //   kDataLoss            an object of the bucket is damaged or missing, or gives other bits than
  //   its
  //                        publisher had
  //   kPermissionDenied    not signed by the trusted key; or the file system's
  //   kResourceExhausted   disk full
  //   kUnavailable, kDeadlineExceeded  from the store: try again
  StatusOr<FollowResult> Step(const FollowTarget& target = {});

  const Output& output() const { return *output_; }
  const FollowerOptions& options() const { return options_; }

 private:
  // What one attempt learnt for the next.
  struct Detour {
    std::string object;          // that failed: missing or damaged
    bool suspect_base = false;   // what was rebuilt over the local version has the wrong bits
    bool without_local = false;  // the next attempt starts from an anchor,
    std::string avoid;           // does without this object,
    Status why;                  // and where there is no such way, this is the error
  };

  Follower(FollowerOptions options, FollowerDeps deps, ChainReader chain,
           std::unique_ptr<Output> output);
  ChainOptions chain_options() const { return {options_.run, options_.trusted_key}; }
  StatusOr<FollowResult> StepOnce(const FollowTarget& target, Detour& detour);
  StatusOr<VersionRef> ReadHead();
  Status CheckContinues(const VersionRef& head);
  Status RefreshLocal();
  StatusOr<std::optional<uint64_t>> NumberOf(const FollowTarget& target, const VersionRef& head);
  StatusOr<Plan> PlanWay(const std::optional<uint64_t>& number, const VersionRef& head,
                         const Detour& detour);
  StatusOr<FollowResult> Describe(const VersionRef& version, const VersionRef& head);
  Status Build(const Plan& plan, Detour& detour, FollowResult& result);
  StatusOr<ChainView> FetchAndStack(const Plan& plan, Detour& detour, FollowResult& result);
  Status CheckStop() const;

  FollowerOptions options_;
  FollowerDeps deps_;
  ChainReader chain_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<LocalCopy> local_;  // null: nothing usable in place
  bool confirmed_ = false;            // local_ is what the bucket's history has under its name
};

}  // namespace pulse
