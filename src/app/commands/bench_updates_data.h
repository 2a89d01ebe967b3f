// The trainers that `bench updates` measures on.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sparse_update.h"
#include "kernels/kernels.h"

namespace pulse {

inline constexpr uint32_t kLocalSteps = 8;
inline constexpr uint32_t kBenchTrainers = 4;

// One trainer over language-model-like weights: normal, |w| at the median 0.019, with a gradient
// that is noise around a direction of its own for each weight. Everything goes through the loop's
// own kernels. As it is behind some rounds and the local steps of one more; residual: before its
// gate.
struct Trained {
  std::vector<float> theta, w, m, v, residual, momentum;
  SparseUpdate update;  // what that gate lets pass
  std::vector<float> round_start_m, round_start_v;

  double density() const {
    return static_cast<double>(update.entries()) / static_cast<double>(update.elements);
  }
};

// n weights.
Trained Train(const kernels::KernelTable& kernels, uint64_t n, double learning_rate);

// A learning rate at which about `density` of the entries pass.
double LearningRateFor(const kernels::KernelTable& kernels, double density);

// The updates of kBenchTrainers - 1 more trainers in the last round: their noise is their own, and
// they begin the round as trainer `t` did.
std::vector<SparseUpdate> LastRoundOfOthers(const kernels::KernelTable& kernels, const Trained& t,
                                            double learning_rate);

}  // namespace pulse
