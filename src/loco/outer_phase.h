// The shared part of a round: the outer optimizer's step on theta, from the sum of all
// contributions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/workers.h"
#include "kernels/kernels.h"
#include "loco/options.h"
#include "loco/view_runs.h"

namespace pulse::loco {

// Not thread-safe.
class OuterPhase {
 public:
  // workers must outlive this.
  OuterPhase(const OuterOptions& options, uint32_t trainers, const kernels::KernelTable& kernels,
             Workers& workers, std::vector<ViewRun> runs);

  // g = sum / trainers; momentum = mu * momentum + g; theta -= lr * (g + mu * momentum). Equal
  // lengths, those of the schema. Returns how many elements' views this changed.
  uint64_t Step(std::span<const float> sum, std::span<float> momentum, std::span<float> theta);

  // How many elements' views differ. Equal lengths, those of the schema.
  uint64_t CountChanged(std::span<const float> before, std::span<const float> after);

 private:
  kernels::OuterScalars scalars_;
  kernels::KernelTable kernels_;
  Workers& workers_;
  std::vector<ViewRun> runs_;
};

}  // namespace pulse::loco
