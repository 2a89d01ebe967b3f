// A trainer's local part of a round: H gradients and AdamW steps on its own weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/clock.h"
#include "core/deadline.h"
#include "core/status.h"
#include "core/workers.h"
#include "kernels/kernels.h"
#include "loco/options.h"
#include "loco/state.h"
#include "loco/trainer_ranks.h"
#include "trainer/trainer.h"

namespace pulse::loco {

// A gradient is usable while no square of it can overflow in AdamW's second moment, which would
// stay infinite and quietly freeze the weight: |g| < 2^63.
inline constexpr float kGradientBound = 0x1p63f;
// theta, w and residual are usable while (theta - w) + residual can't overflow: below 2^126.
inline constexpr float kWeightBound = 0x1p126f;

// True if all |x| < bound, a positive normal number; false for any NaN.
bool AllBelow(std::span<const float> x, float bound);
bool AllBelow(Workers& workers, std::span<const float> x, float bound);

struct InnerResult {
  Metrics metrics;     // summed over the steps taken
  bool finite = true;  // false: a gradient or weight is not usable; w is not to be sent
  Status error;        // of the trainer, where it drops the round (on_trainer_error) and is why
};

// Where a trainer has several ranks, each steps its own shard, and computes either some of a step's
// micro-batches at the whole weights, or its shard of all of them where the trainer can: all calls
// but Step and TakeBack are collective among them. Not thread-safe. Memory: copies of m and v, to
// take a round back where rounds are dropped; with micro-batches a gradient and one array per level
// of the tree that adds them, and with several ranks w, and theta where that generates rollouts: as
// large as the whole model, but for trainers that compute ranges.
class InnerPhase {
 public:
  // trainer, ranks and workers must outlive this.
  InnerPhase(const Options& options, const kernels::KernelTable& kernels, const Clock& clock,
             Trainer& trainer, TrainerRanks& ranks, Workers& workers, uint32_t trainer_index,
             uint32_t trainers);

  // w <- theta, then H steps on w, m, v. gradient: scratch of as many elements. Stops at the first
  // gradient that is not usable, before it touches m and v; `finite` is then false on all the
  // trainer's ranks, as it is where another of them failed. Errors are the trainer's, with the
  // step, and the communicator's; then w, m, v and step are unspecified.
  StatusOr<InnerResult> Run(State& state, std::span<float> gradient);

  // Makes m, v and step what they were before the last Run. Only where rounds are dropped.
  void TakeBack(State& state) const;

  // One gradient at state.theta, for ddp, which keeps theta and w in one.
  StatusOr<InnerResult> GradientAtTheta(const State& state, uint64_t step_in_round,
                                        std::span<float> gradient);

  // One AdamW step on `w`; counts state.step.
  void Step(State& state, std::span<float> w, std::span<const float> gradient) const;

 private:
  // What the trainer is given: whole, or (OfRanges) this rank's shard.
  struct Weights {
    std::span<const float> at;       // that the gradient is taken at
    std::span<const float> rollout;  // that generate
  };
  // Of a step at `shard`, while theta is state's. Collective where whole weights are needed.
  StatusOr<Weights> WeightsAt(const State& state, const std::vector<float>& shard, bool first);

  // Calls the trainer and adds to result.metrics; result.finite tells whether `gradient`, this
  // rank's shard of the sum over all micro-batches, is usable everywhere.
  Status ComputeGradient(const State& state, uint64_t step_in_round, const Weights& weights,
                         std::span<float> gradient, InnerResult& result);
  Status CallTrainer(LocalStep at, const Weights& weights, std::span<float> gradient,
                     InnerResult& result);
  Status SumMicroBatches(LocalStep at, const Weights& weights, std::span<float> gradient,
                         InnerResult& result);
  // Whether this rank asks for its shard of every micro-batch's gradient.
  bool OfRanges() const { return ranks_.ranks() > 1 && trainer_.computes_ranges(); }
  Deadline NextDeadline() const { return Deadline::After(clock_, options_.deadline_ms); }

  Options options_;
  kernels::KernelTable kernels_;
  const Clock& clock_;
  Trainer& trainer_;
  TrainerRanks& ranks_;
  Workers& workers_;
  uint32_t trainer_index_;
  uint32_t trainers_;
  std::vector<float> m_before_, v_before_;
  // Unless the trainer has one rank, or computes ranges: what it computes with. Theta only where it
  // generates and w is another.
  std::vector<float> whole_w_, whole_theta_;
  uint64_t step_before_ = 0;
};

}  // namespace pulse::loco
