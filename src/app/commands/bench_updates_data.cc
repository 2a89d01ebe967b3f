#include "app/commands/bench_updates_data.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "loco/pseudo_gradient.h"

namespace pulse {
namespace {

constexpr uint32_t kRounds = 4;  // the last is measured: by then the residual holds something

constexpr uint64_t kPiece = uint64_t{1} << 15;

void LocalStep(const kernels::KernelTable& kernels, const kernels::AdamWScalars& scalars,
               uint32_t step, uint32_t trainer, Trained& t) {
  std::vector<float> gradient(kPiece);
  for (uint64_t at = 0; at < t.w.size(); at += kPiece) {
    const uint64_t n = std::min<uint64_t>(kPiece, t.w.size() - at);
    const auto piece = static_cast<uint32_t>(at / kPiece);
    Rng direction(7, {.sample = piece}),
        noise(7, {.trainer = trainer, .step = step, .sample = piece});
    for (uint64_t i = 0; i < n; ++i) gradient[i] = 0.3f * direction.Normal() + noise.Normal();
    const auto part = [&](std::vector<float>& array) { return std::span(array).subspan(at, n); };
    kernels.adamw(scalars, part(t.w), part(t.m), part(t.v), std::span(gradient).first(n));
  }
}

void TakeLocalSteps(const kernels::KernelTable& kernels, double learning_rate, uint32_t round,
                    uint32_t trainer, Trained& t) {
  t.w = t.theta;
  for (uint32_t h = 1; h <= kLocalSteps; ++h) {
    const uint32_t step = (round - 1) * kLocalSteps + h;
    LocalStep(kernels, kernels::AdamWScalars::At({.learning_rate = learning_rate}, step), step,
              trainer, t);
  }
}

}  // namespace

Trained Train(const kernels::KernelTable& kernels, uint64_t n, double learning_rate) {
  Trained t = {.theta = std::vector<float>(n),
               .w = {},
               .m = std::vector<float>(n),
               .v = std::vector<float>(n),
               .residual = std::vector<float>(n),
               .momentum = std::vector<float>(n),
               .update = {},
               .round_start_m = {},
               .round_start_v = {}};
  Rng rng(5, {});
  for (float& theta : t.theta) theta = rng.Normal() * 0.028f;
  Workers workers(1);
  loco::PseudoGradient gate(kernels, workers, {{kernels::GateView::kBF16, 0, n}}, false);
  std::vector<float> sum(n);
  for (uint32_t round = 1;; ++round) {
    if (round == kRounds) {
      t.round_start_m = t.m;
      t.round_start_v = t.v;
    }
    TakeLocalSteps(kernels, learning_rate, round, 0, t);
    if (round == kRounds) break;
    t.update = gate.Gate(t.theta, t.w, t.residual);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (size_t b = 0; b < t.update.blocks(); ++b) {
      const uint64_t first = b * kSparseBlockElements;
      kernels.reduce.add_sparse(
          std::span(sum).subspan(first, std::min<uint64_t>(kSparseBlockElements, n - first)),
          t.update.BlockPositions(b), t.update.BlockValues(b));
    }
    kernels.outer_step({.trainers = 1}, sum, t.momentum, t.theta);
  }
  std::vector<float> residual = t.residual;  // as it was before the last gate, for more gates
  t.update = gate.Gate(t.theta, t.w, residual);
  return t;
}

// A learning rate at which about `density` of the entries pass.
double LearningRateFor(const kernels::KernelTable& kernels, double density) {
  constexpr uint64_t kSample = uint64_t{1} << 17;
  double low = 1e-8, high = 1e-3;
  for (int i = 0; i < 12; ++i) {
    const double middle = std::sqrt(low * high);
    (Train(kernels, kSample, middle).density() < density ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

std::vector<SparseUpdate> LastRoundOfOthers(const kernels::KernelTable& kernels, const Trained& t,
                                            double learning_rate) {
  std::vector<SparseUpdate> updates;
  Workers workers(1);
  loco::PseudoGradient gate(kernels, workers, {{kernels::GateView::kBF16, 0, t.theta.size()}},
                            false);
  for (uint32_t k = 1; k < kBenchTrainers; ++k) {
    Trained other = t;
    other.m = t.round_start_m;
    other.v = t.round_start_v;
    TakeLocalSteps(kernels, learning_rate, kRounds, k, other);
    updates.push_back(gate.Gate(other.theta, other.w, other.residual));
  }
  return updates;
}

}  // namespace pulse
