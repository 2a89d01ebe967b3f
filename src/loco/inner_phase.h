// A trainer's local part of a round: H gradients and AdamW steps on its own weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"
#include "kernels/kernels.h"
#include "loco/options.h"
#include "loco/state.h"
#include "trainer/trainer.h"

namespace pulse::loco {

// A gradient is usable while no square of it can overflow in AdamW's second moment, which would
// stay infinite and quietly freeze the weight: |g| < 2^63.
inline constexpr float kGradientBound = 0x1p63f;
// theta, w and residual are usable while (theta - w) + residual can't overflow: below 2^126.
inline constexpr float kWeightBound = 0x1p126f;

// True if all |x| < bound, a positive normal number; false for any NaN.
bool AllBelow(std::span<const float> x, float bound);

struct InnerResult {
  Metrics metrics;     // summed over the steps taken
  bool finite = true;  // false: a gradient or weight is not usable; w is not to be sent
};

// Not thread-safe. Memory: copies of m and v, to take a round back.
class InnerPhase {
 public:
  // trainer must outlive this.
  InnerPhase(const Options& options, const kernels::KernelTable& kernels, Trainer& trainer,
             uint32_t trainer_index, uint32_t trainers);

  // w <- theta, then H steps on w, m, v. gradient: scratch of as many elements. Stops at the first
  // gradient that is not usable, before it touches m and v. Errors are the trainer's, with the
  // step; then w, m, v and step are unspecified.
  StatusOr<InnerResult> Run(State& state, std::span<float> gradient);

  // Makes m, v and step what they were before the last Run.
  void TakeBack(State& state) const;

  // One gradient at state.theta, for ddp, which keeps theta and w in one.
  StatusOr<InnerResult> GradientAtTheta(const State& state, uint64_t step_in_round,
                                        std::span<float> gradient);

  // One AdamW step on `w`; counts state.step.
  void Step(State& state, std::span<float> w, std::span<const float> gradient) const;

 private:
  // Calls the trainer and adds to result.metrics; result.finite tells whether `gradient` is usable.
  Status ComputeGradient(const State& state, uint64_t step_in_round, std::span<const float> weights,
                         std::span<float> gradient, InnerResult& result);

  Options options_;
  kernels::KernelTable kernels_;
  Trainer& trainer_;
  uint32_t trainer_index_;
  uint32_t trainers_;
  std::vector<float> m_before_, v_before_;
  uint64_t step_before_ = 0;
};

}  // namespace pulse::loco
