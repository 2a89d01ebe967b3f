// One element of the outer step, as outer_step.h writes it.
#pragma once

#include "kernels/arithmetic/canonical.h"
#include "kernels/outer_step/outer_step.h"

namespace pulse::kernels {

PULSE_HOST_DEVICE inline void OuterStepElement(const OuterScalars& k, float sum, float& momentum,
                                               float& theta) {
  const float g = sum / k.trainers;
  const float b = k.momentum * momentum + g;
  theta = Canonical(theta - k.learning_rate * (g + k.momentum * b));
  momentum = Canonical(b);
}

}  // namespace pulse::kernels
