#include "loco/inner_phase.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace pulse::loco {
namespace {

// Elements that a thread takes at least: far more work than it costs to wake it.
constexpr uint64_t kGranule = uint64_t{1} << 15;

void Copy(Workers& workers, std::span<const float> from, std::vector<float>& to) {
  to.resize(from.size());
  RunRanges(workers, from.size(), kGranule, [&](uint64_t begin, uint64_t end) {
    std::copy(from.begin() + static_cast<ptrdiff_t>(begin),
              from.begin() + static_cast<ptrdiff_t>(end),
              to.begin() + static_cast<ptrdiff_t>(begin));
  });
}

}  // namespace

bool AllBelow(std::span<const float> x, float bound) {
  // |x| as an integer is ordered like |x|, NaNs above all; the difference is negative while below.
  const int32_t limit = std::bit_cast<int32_t>(bound);
  int32_t all_negative = -1;
  for (const float value : x) {
    all_negative &= (std::bit_cast<int32_t>(value) & 0x7FFFFFFF) - limit;
  }
  return all_negative < 0;
}

bool AllBelow(Workers& workers, std::span<const float> x, float bound) {
  std::atomic<bool> all = true;
  RunRanges(workers, x.size(), kGranule, [&](uint64_t begin, uint64_t end) {
    if (!AllBelow(x.subspan(begin, end - begin), bound)) all = false;
  });
  return all;
}

InnerPhase::InnerPhase(const Options& options, const kernels::KernelTable& kernels,
                       const Clock& clock, Trainer& trainer, TrainerRanks& ranks, Workers& workers,
                       uint32_t trainer_index, uint32_t trainers)
    : options_(options),
      kernels_(kernels),
      clock_(clock),
      trainer_(trainer),
      ranks_(ranks),
      workers_(workers),
      trainer_index_(trainer_index),
      trainers_(trainers) {}

StatusOr<InnerPhase::Weights> InnerPhase::WeightsAt(const State& state,
                                                    const std::vector<float>& shard, bool first) {
  const bool global = options_.rollout_weights == RolloutWeights::kGlobal;
  if (ranks_.ranks() == 1 || OfRanges()) {
    return Weights{shard, global ? std::span<const float>(state.theta) : shard};
  }
  whole_w_.resize(ranks_.elements());
  PULSE_RETURN_IF_ERROR(ranks_.Gather(shard, whole_w_, NextDeadline()));
  // A round's first step is at theta itself, and so is every one of ddp.
  if (!global || first) {
    if (global && options_.mode != Mode::kDdp && options_.local_steps > 1) whole_theta_ = whole_w_;
    return Weights{whole_w_, whole_w_};
  }
  return Weights{whole_w_, whole_theta_};
}

Status InnerPhase::CallTrainer(LocalStep at, const Weights& weights, std::span<float> gradient,
                               InnerResult& result) {
  auto figures = OfRanges() ? trainer_.GradientRange(at, ranks_.range().begin, weights.at,
                                                     weights.rollout, gradient)
                            : trainer_.Gradient(at, weights.at, weights.rollout, gradient);
  if (!figures.ok()) {
    const Status error =
        Annotate(figures.status(), fmt::format("trainer {}, step {}", trainer_index_, at.step));
    if (options_.on_trainer_error == OnNonFinite::kStop) return error;
    result.finite = false;
    result.error = error;
    return OkStatus();
  }
  if (OfRanges() && ranks_.shard() > 0) return OkStatus();  // all have the same figures
  for (const auto& [name, value] : *figures) result.metrics[name] += value;
  return OkStatus();
}

// Each rank adds up an aligned subtree of the micro-batches, and the ranks add up their sums; or
// the whole tree of its own shard.
Status InnerPhase::SumMicroBatches(LocalStep at, const Weights& weights, std::span<float> gradient,
                                   InnerResult& result) {
  const uint32_t sharing = OfRanges() ? 1 : ranks_.ranks();  // ranks that share the micro-batches
  const uint32_t each = options_.micro_batches / sharing;
  TreeSum sum(kernels_.reduce.add_dense);
  Status computed;
  for (uint32_t i = 0; i < each && computed.ok() && result.finite; ++i) {
    at.micro_batch = OfRanges() ? i : ranks_.shard() * each + i;
    std::vector<float> leaf(weights.at.size());
    computed = CallTrainer(at, weights, leaf, result);
    sum.Add(std::move(leaf));
  }
  PULSE_ASSIGN_OR_RETURN(const bool all_computed,
                         ranks_.All(computed.ok() && result.finite, NextDeadline()));
  PULSE_RETURN_IF_ERROR(computed);
  result.finite = all_computed;
  if (!all_computed) return OkStatus();  // the rank that failed tells the others why
  const std::vector<float> mine = sum.Finish();
  if (sharing == 1) {
    std::copy(mine.begin(), mine.end(), gradient.begin());
  } else {
    PULSE_RETURN_IF_ERROR(ranks_.ReduceScatter(mine, gradient, NextDeadline()));
  }
  return OkStatus();
}

Status InnerPhase::ComputeGradient(const State& state, uint64_t step_in_round,
                                   const Weights& weights, std::span<float> gradient,
                                   InnerResult& result) {
  // Numbered by the agreed round, not by the steps taken: a dropped round's data does not come
  // again, and all trainers are at the same step.
  const LocalStep at = {.trainer = trainer_index_,
                        .trainers = trainers_,
                        .round = state.round,
                        .step = state.round * options_.local_steps + step_in_round,
                        .micro_batch = 0,
                        .micro_batches = options_.micro_batches};
  if (options_.micro_batches == 1) {
    PULSE_RETURN_IF_ERROR(CallTrainer(at, weights, gradient, result));
  } else {
    PULSE_RETURN_IF_ERROR(SumMicroBatches(at, weights, gradient, result));
  }
  if (!result.finite) return OkStatus();
  PULSE_ASSIGN_OR_RETURN(result.finite,
                         ranks_.All(AllBelow(workers_, gradient, kGradientBound), NextDeadline()));
  return OkStatus();
}

void InnerPhase::Step(State& state, std::span<float> w, std::span<const float> gradient) const {
  ++state.step;
  const auto scalars = kernels::AdamWScalars::At(options_.inner, state.step);
  RunRanges(workers_, w.size(), kGranule, [&](uint64_t begin, uint64_t end) {
    const auto part = [&](auto&& array) { return std::span(array).subspan(begin, end - begin); };
    kernels_.adamw(scalars, part(w), part(state.m), part(state.v), part(gradient));
  });
}

StatusOr<InnerResult> InnerPhase::Run(State& state, std::span<float> gradient) {
  Copy(workers_, state.theta, state.w);
  if (options_.on_non_finite == OnNonFinite::kDrop) {
    Copy(workers_, state.m, m_before_);
    Copy(workers_, state.v, v_before_);
    step_before_ = state.step;
  }
  InnerResult result;
  for (uint64_t step = 0; step < options_.local_steps; ++step) {
    PULSE_ASSIGN_OR_RETURN(const Weights weights, WeightsAt(state, state.w, step == 0));
    PULSE_RETURN_IF_ERROR(ComputeGradient(state, step, weights, gradient, result));
    if (!result.finite) return result;
    Step(state, state.w, gradient);
  }
  PULSE_ASSIGN_OR_RETURN(result.finite,
                         ranks_.All(AllBelow(workers_, state.w, kWeightBound) &&
                                        AllBelow(workers_, state.residual, kWeightBound),
                                    NextDeadline()));
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
  PULSE_ASSIGN_OR_RETURN(const Weights weights, WeightsAt(state, state.theta, true));
  PULSE_RETURN_IF_ERROR(ComputeGradient(state, step_in_round, weights, gradient, result));
  return result;
}

}  // namespace pulse::loco
