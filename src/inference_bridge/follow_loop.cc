#include "inference_bridge/follow_loop.h"

#include <algorithm>
#include <optional>

namespace pulse {
namespace {

// How long a stop may go unnoticed.
constexpr int64_t kStopCheckMs = 100;

Status Stopped() {
  return Cancelled("stopped on request");
}

// false when stopped meanwhile.
bool Pause(Clock& clock, int64_t pause_ms, const FollowLoopOptions& options) {
  while (true) {
    if (options.stop && options.stop()) return false;
    if (pause_ms <= 0) return true;
    const int64_t slice_ms = std::min(pause_ms, kStopCheckMs);
    clock.SleepFor(slice_ms * 1'000'000);
    pause_ms -= slice_ms;
  }
}

bool IsFinal(const FollowResult& result) {
  const auto at = result.metadata.find("final");
  return at != result.metadata.end() && at->second == "true";
}

// The engines, and which version each was last told of.
class Listeners {
 public:
  Listeners(const std::vector<Engine*>& engines, const Output& output, Logger& log)
      : output_(output), log_(log) {
    for (Engine* engine : engines) listeners_.push_back({engine, std::nullopt, false});
  }

  // Tells those that do not know yet. The first error.
  Status Tell(const FollowResult& result) {
    Status first;
    const EngineUpdateKind kind = output_.layout() == OutputLayout::kFolder
                                      ? EngineUpdateKind::kFolder
                                      : EngineUpdateKind::kFile;
    for (Listener& listener : listeners_) {
      if (listener.told == result.version.id) continue;
      const Status status =
          listener.engine->Notify({result.version.id, result.digest, output_.path(), kind});
      if (status.ok()) {
        listener.told = result.version.id;
      } else if (!listener.failing) {  // once, not at every poll
        log_.error("{}; trying again until it answers", ToStd(status.message()));
      }
      listener.failing = !status.ok();
      if (first.ok()) first = status;
    }
    return first;
  }

 private:
  struct Listener {
    Engine* engine;
    std::optional<VersionId> told;
    bool failing;
  };
  const Output& output_;
  Logger& log_;
  std::vector<Listener> listeners_;
};

}  // namespace

Status FollowLoop(const FollowStep& step, const Output& output, Clock& clock, Logger& log,
                  const FollowLoopOptions& options) {
  const FollowTarget target = options.every_version ? FollowTarget::Next() : FollowTarget::Newest();
  Listeners listeners(options.engines, output, log);
  const int64_t poll_ms = std::max<int64_t>(1, options.poll_ms);
  bool begun = false;
  int64_t backoff_ms = 0;
  while (Pause(clock, backoff_ms, options)) {
    const auto result = step(target);
    const Status& status = result.status();
    if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
      if (backoff_ms == 0) log.warn("{}; trying again", ToStd(status.message()));
      backoff_ms = std::clamp(backoff_ms * 2, poll_ms, std::max(poll_ms, options.max_backoff_ms));
      continue;
    }
    backoff_ms = 0;
    const bool waiting = absl::IsNotFound(status) && options.wait_for_bucket && !begun;
    if (!waiting) {
      PULSE_RETURN_IF_ERROR(status);
      if (options.on_version && (result->changed || !begun)) {
        PULSE_RETURN_IF_ERROR(options.on_version(*result));
      }
      begun = true;
      const Status told = listeners.Tell(*result);
      // Behind the last version of a run that was stopped there come others once it is resumed.
      if (result->version.id.number < result->newest) continue;
      if (options.until_final && IsFinal(*result)) return told;
    }
    if (!Pause(clock, poll_ms, options)) break;
  }
  return Stopped();
}

Status WaitUntilThere(Clock& clock, const FollowLoopOptions& options,
                      const std::function<Status()>& attempt) {
  while (true) {
    const Status status = attempt();
    if (!absl::IsNotFound(status) && !absl::IsUnavailable(status)) return status;
    if (!Pause(clock, std::max<int64_t>(1, options.poll_ms), options)) return Stopped();
  }
}

}  // namespace pulse
