// Follows a run until told to stop: polls the head, rebuilds what is new, tells the engines.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "inference_bridge/engine.h"
#include "inference_bridge/follower.h"

namespace pulse {

struct FollowLoopOptions {
  int64_t poll_ms = 1000;
  // After kUnavailable or kDeadlineExceeded from the store the pause doubles from poll_ms up to
  // this.
  int64_t max_backoff_ms = 30'000;
  bool every_version = false;    // each in turn; else whatever is the newest
  bool wait_for_bucket = false;  // what is not there when following begins is waited for
  bool until_final = false;      // end at a newest version whose metadata has "final": "true"
  // After each version that was put in place, and at the start for the one that is there; an error
  // ends the loop with it.
  std::function<Status(const FollowResult&)> on_version = {};
  std::function<bool()> stop = {};  // asked at least every 100 ms
  std::vector<Engine*> engines;     // must outlive the loop
};

// Brings an output to a target, as Follower::Step does.
using FollowStep = std::function<StatusOr<FollowResult>(const FollowTarget&)>;

// Returns OK at the final version (or the error of an engine that could not be told of it),
// kCancelled when stopped, else the first error that waiting does not cure (see Follower::Step). An
// engine that fails is told again at every poll, and holds nobody up. Clock: as the follower's.
Status FollowLoop(const FollowStep& step, const Output& output, Clock& clock, Logger& log,
                  const FollowLoopOptions& options);
inline Status FollowLoop(Follower& follower, Clock& clock, Logger& log,
                         const FollowLoopOptions& options) {
  const auto step = [&](const FollowTarget& target) { return follower.Step(target); };
  return FollowLoop(step, follower.output(), clock, log, options);
}

// Calls `attempt` until it gives anything but kNotFound or kUnavailable, pausing poll_ms in
// between: for opening a bucket that is not there yet. kCancelled when stopped.
Status WaitUntilThere(Clock& clock, const FollowLoopOptions& options,
                      const std::function<Status()>& attempt);

}  // namespace pulse
