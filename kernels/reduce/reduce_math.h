// One element of the sums, as reduce.h writes them.
#pragma once

#include "kernels/arithmetic/canonical.h"

namespace pulse::kernels {

PULSE_HOST_DEVICE inline float AddElement(float sum, float addend) {
  return Canonical(sum + addend);
}

PULSE_HOST_DEVICE inline float MeanElement(float sum, float trainers) {
  return Canonical(sum / trainers);
}

}  // namespace pulse::kernels
