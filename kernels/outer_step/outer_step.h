// The outer optimizer: SGD with Nesterov momentum on the mean pseudo-gradient (Douillard et al.,
// "DiLoCo", 2023; the update of torch.optim.SGD with nesterov and no dampening).
//
//   g = sum / trainers
//   b = mu * b + g
//   theta = theta - lr * (g + mu * b)
#pragma once

#include <span>
#include <string_view>

namespace pulse::kernels {

struct OuterScalars {
  float learning_rate = 0.7f;
  float momentum = 0.9f;
  float trainers = 1;
};

// Equal lengths, no overlap, any alignment. Rounds as written; a NaN result is stored as
// the canonical NaN (arithmetic.h). Every body gives the reference's bits.
using OuterStepFn = void (*)(const OuterScalars& scalars, std::span<const float> sum,
                             std::span<float> momentum, std::span<float> theta);

struct OuterStepBody {
  std::string_view name;
  OuterStepFn run;
};

// The reference first, the fastest last.
std::span<const OuterStepBody> OuterStepBodies();

}  // namespace pulse::kernels
