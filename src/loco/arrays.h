// A rank's arrays (theta, w, m, v, e, b) and everything that a round does to them. The loop decides
// what happens when; an implementation knows where the arrays live: host_arrays.h in host memory,
// device/device_arrays.h on a device. Both give the same bits.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "collective/communicator.h"
#include "core/clock.h"
#include "core/digest.h"
#include "core/schema.h"
#include "core/shards.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "loco/exchange/adaptive.h"
#include "loco/exchange/choice.h"
#include "loco/exchange/exchange.h"
#include "loco/inner_phase.h"
#include "loco/options.h"
#include "loco/round_closing.h"
#include "loco/state.h"
#include "loco/view_runs.h"
#include "trainer/trainer.h"

namespace pulse::loco {

// What this trainer's next contribution is, for the status table.
struct Contributed {
  uint64_t entries = 0;
  uint64_t payload_bytes = 0;  // expected
};

// Not thread-safe. Calls that say so are collective among the ranks that share a trainer, or that
// hold the same shard. After an error the arrays are unspecified.
class Arrays {
 public:
  virtual ~Arrays() = default;

  virtual std::string_view place() const = 0;  // "host", "cuda"

  // The counters are always current, the arrays after Bring and until the next call. Before Take:
  // all zero, for the caller to fill.
  virtual State& state() = 0;

  // What a run starts from lies in state(): theta, ...
  virtual Status TakeTheta(Deadline deadline) = 0;
  // ... or every array, as of a checkpoint.
  virtual Status TakeState(Deadline deadline) = 0;

  enum class Which { kTheta, kAll };
  // Makes state()'s arrays current; kTheta: theta alone.
  virtual Status Bring(Which which, Deadline deadline) = 0;

  // Pulseloco and diloco: w <- theta, then H local steps. As InnerPhase::Run.
  virtual StatusOr<InnerResult> TakeLocalSteps() = 0;
  // Makes m, v and step what they were before the last TakeLocalSteps.
  virtual Status TakeBack() = 0;
  // Ddp: w <- theta, to be compared with at the round's end.
  virtual Status BeginDdpRound() = 0;
  // Ddp: the gradient of a step at theta. As InnerPhase::GradientAtTheta.
  virtual StatusOr<InnerResult> TakeGradient(uint64_t step_in_round) = 0;

  // Makes this trainer's contribution from what was trained last. usable: false for a dropped
  // trainer, which has none; its residual stays.
  virtual StatusOr<Contributed> Contribute(bool usable) = 0;
  // Collective among trainers: the canonical sum of all contributions. round.theta is not looked
  // at. payload_bytes: all trainers', from the table.
  virtual Status Sum(const AgreedRound& round, std::span<const uint64_t> payload_bytes,
                     Deadline deadline) = 0;
  // Of the last Sum. Learn: how long it took on the slowest rank.
  virtual const Estimate& estimate() const = 0;
  virtual Traffic traffic() const = 0;
  virtual void Learn(double seconds) = 0;

  // The outer step with the sum. Returns how many elements of theta's view it changed in this
  // shard.
  virtual StatusOr<uint64_t> TakeOuterStep() = 0;
  // Ddp: the AdamW step on theta with the mean.
  virtual Status TakeDdpStep() = 0;
  // Ddp: how many elements' views differ from those at the round's start.
  virtual StatusOr<uint64_t> CountChanged() = 0;

  // Of this shard of all that must be equal on every trainer.
  virtual StatusOr<ShardDigests> Digests(const ModelSchema& masters, Deadline deadline) = 0;
  // Whether all of this shard of theta is below kWeightBound.
  virtual StatusOr<bool> ThetaIsUsable() = 0;
};

// What an implementation is made from; all references must outlive it.
struct ArraysParts {
  const Options& options;
  Trainer& trainer;
  Communicator& peers;          // one rank per trainer
  Communicator* trainer_group;  // the ranks that share this trainer; null for one
  uint32_t trainer_index;
  uint32_t trainers;
  const std::vector<ElementRange>& shards;  // of the whole arrays, one per rank of a trainer
  const kernels::KernelTable& kernels;
  const Clock& clock;
  const ModelSchema& masters;
  const std::vector<ViewRun>& runs;  // of the whole arrays
};

using MakeArrays = std::function<StatusOr<std::unique_ptr<Arrays>>(const ArraysParts&)>;

// How AdaptiveExchange is set up for such a run.
AdaptiveOptions ExchangeOptionsFor(const Options& options, uint32_t trainers);

}  // namespace pulse::loco
