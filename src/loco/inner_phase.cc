#include "loco/inner_phase.h"

#include <algorithm>
#include <bit>

namespace pulse::loco {

bool AllBelow(std::span<const float> x, float bound) {
  // |x| as an integer is ordered like |x|, NaNs above all; the difference is negative while below.
  const int32_t limit = std::bit_cast<int32_t>(bound);
  int32_t all_negative = -1;
  for (const float value : x) {
    all_negative &= (std::bit_cast<int32_t>(value) & 0x7FFFFFFF) - limit;
  }
  return all_negative < 0;
}

InnerPhase::InnerPhase(const Options& options, const kernels::KernelTable& kernels,
                       Trainer& trainer, uint32_t trainer_index, uint32_t trainers)
    : options_(options),
      kernels_(kernels),
      trainer_(trainer),
      trainer_index_(trainer_index),
      trainers_(trainers) {}

Status InnerPhase::ComputeGradient(const State& state, uint64_t step_in_round,
                                   std::span<const float> weights, std::span<float> gradient,
                                   InnerResult& result) {
  // Numbered by the agreed round, not by the steps taken: a dropped round's data does not come
  // again, and all trainers are at the same step.
  const LocalStep at = {.trainer = trainer_index_,
                        .trainers = trainers_,
                        .round = state.round,
                        .step = state.round * options_.local_steps + step_in_round};
  const bool global = options_.rollout_weights == RolloutWeights::kGlobal;
  auto metrics =
      trainer_.Gradient(at, weights, global ? std::span(state.theta) : weights, gradient);
  if (!metrics.ok()) {
    return Annotate(metrics.status(), fmt::format("trainer {}, step {}", trainer_index_, at.step));
  }
  for (const auto& [name, value] : *metrics) result.metrics[name] += value;
  result.finite = AllBelow(gradient, kGradientBound);
  return OkStatus();
}

void InnerPhase::Step(State& state, std::span<float> w, std::span<const float> gradient) const {
  ++state.step;
  kernels_.adamw(kernels::AdamWScalars::At(options_.inner, state.step), w, state.m, state.v,
                 gradient);
}

StatusOr<InnerResult> InnerPhase::Run(State& state, std::span<float> gradient) {
  state.w = state.theta;
  m_before_ = state.m;
  v_before_ = state.v;
  step_before_ = state.step;
  InnerResult result;
  for (uint64_t step = 0; step < options_.local_steps; ++step) {
    PULSE_RETURN_IF_ERROR(ComputeGradient(state, step, state.w, gradient, result));
    if (!result.finite) return result;
    Step(state, state.w, gradient);
  }
  result.finite = AllBelow(state.w, kWeightBound) && AllBelow(state.residual, kWeightBound);
  return result;
}

void InnerPhase::TakeBack(State& state) const {
  state.m = m_before_;
  state.v = v_before_;
  state.step = step_before_;
}

StatusOr<InnerResult> InnerPhase::GradientAtTheta(const State& state, uint64_t step_in_round,
                                                  std::span<float> gradient) {
  InnerResult result;
  PULSE_RETURN_IF_ERROR(ComputeGradient(state, step_in_round, state.theta, gradient, result));
  return result;
}

}  // namespace pulse::loco
