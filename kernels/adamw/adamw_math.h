// One element of an AdamW step, as adamw.h writes it.
#pragma once

#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/arithmetic/canonical.h"

namespace pulse::kernels {

PULSE_HOST_DEVICE inline void AdamWElement(const AdamWScalars& k, float& w, float& m, float& v,
                                           float g) {
  const float decayed = w * k.decay;
  const float m1 = k.beta1 * m + k.one_minus_beta1 * g;
  const float v1 = k.beta2 * v + (k.one_minus_beta2 * g) * g;
  const float denominator = std::sqrt(v1) / k.root_correction2 + k.epsilon;
  w = Canonical(decayed - k.step_size * (m1 / denominator));
  m = Canonical(m1);
  v = Canonical(v1);
}

}  // namespace pulse::kernels
