// Who wants to know about agreed rounds: publishing, metrics, checkpoints.
#pragma once

#include <map>
#include <string>

#include "core/status.h"
#include "loco/report.h"
#include "loco/state.h"

namespace pulse::loco {

// What an observer wants kept with a checkpoint: text by key, UTF-8.
using Notes = std::map<std::string, std::string>;

// Called on every rank by the loop's thread, between rounds, when the digests of theta have been
// found equal: what is seen here may be committed. `state` is valid during the call.
//
// An error ends the run on all ranks together: it travels in the next status table (the others have
// spent a round's local steps by then, and throw them away), so that observers cost the ranks that
// have nothing to do no wait. Of long work the other ranks are told (loco/busy_signal.h): it may
// take Options::start_deadline_ms.
class RoundObserver {
 public:
  virtual ~RoundObserver() = default;

  // Before the first round of a run: state.theta holds this rank's shard of the weights that it
  // starts from.
  virtual Status OnStart(const State& /*state*/) { return OkStatus(); }

  // Instead, where the run continues from a checkpoint; notes: those kept with it.
  virtual Status OnResume(const State& /*state*/, const Notes& /*notes*/) { return OkStatus(); }

  // Of a checkpoint that is about to be taken, after OnStart or OnRound. Rank 0's are kept.
  virtual Notes CheckpointNotes() { return {}; }

  // Whether OnRound will look at the arrays of `state` after that round: where they live on a
  // device (loco/arrays.h), theta is brought to the host only then. last: no round follows.
  virtual bool ReadsTheta(uint64_t /*round*/, bool /*last*/) const { return true; }

  // After each round. state.round == report.round; state.w holds what this trainer had before the
  // exchange (in host memory; where the arrays live on a device, theta alone is there).
  virtual Status OnRound(const State& state, const RoundReport& report) = 0;
};

}  // namespace pulse::loco
