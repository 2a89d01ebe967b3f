// What of a run may go: versions that nobody needs any more, and what crashed publishers left
// behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "store/store.h"
#include "sync/chain.h"

namespace pulse {

struct RetentionOptions {
  ChainOptions chain;
  // A version is kept if it is among the newest `keep_versions`, or younger than keep_age_ms, or if
  // a kept one is rebuilt from it (so kept history always begins with an anchor).
  uint64_t keep_versions = 64;
  int64_t keep_age_ms = 0;
  // Nothing younger than this is removed: a reader may have planned on it a moment ago. An hour is
  // far above the time that one fetch takes.
  int64_t min_age_ms = 3'600'000;
};

struct GcItem {
  std::string key;
  uint64_t bytes = 0;
  std::string why;     // "version 3 is not kept", "left by an attempt that lost"
  bool chain = false;  // of a version that the head still reaches
  bool manifest = false;
};

struct GcPlan {
  std::vector<GcItem> remove;  // in the order of removal
  std::vector<GcItem> spared;  // garbage, but too young; or perhaps an attempt in flight
  uint64_t bytes = 0;          // of `remove`
  uint64_t kept_versions = 0;
  uint64_t oldest_kept = 0;  // its number (it has an anchor); 0 when nothing is published
};

// A dry run. Reads the head first and the listing after it, so that what is published meanwhile is
// safe. Garbage is what the head does not reach, if its epoch is older than the head's or its
// number not above the head version's; anything else may be an attempt in flight and is never
// touched. A run whose head or kept manifests are damaged gives kDataLoss: nothing is removed by
// guess.
StatusOr<GcPlan> PlanGc(Store& store, const Clock& clock, const RetentionOptions& options);

struct GcResult {
  uint64_t removed = 0;
  uint64_t bytes = 0;
  std::vector<std::string> errors;  // one line per key that could not be removed
};

// Removes what the plan says. Of the versions that are not kept the newest manifest goes first, so
// that a reader's walk ends at the oldest kept anchor at once, and a crash leaves only orphans; if
// one such manifest can't be removed, what lies behind it stays. Errors are collected, never passed
// on: a publisher goes on without retention rather than not at all.
GcResult ExecuteGc(Store& store, const GcPlan& plan);

}  // namespace pulse
