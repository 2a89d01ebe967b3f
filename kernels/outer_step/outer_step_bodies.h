// The bodies of outer_step.h, for the list and the tests alone.
#pragma once

#include "kernels/outer_step/outer_step.h"

namespace pulse::kernels {

void OuterStepRef(const OuterScalars& scalars, std::span<const float> sum,
                  std::span<float> momentum, std::span<float> theta);
void OuterStepSimd(const OuterScalars& scalars, std::span<const float> sum,
                   std::span<float> momentum, std::span<float> theta);

}  // namespace pulse::kernels
