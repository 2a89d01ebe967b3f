#include "kernels/outer_step/outer_step_bodies.h"
#include "kernels/outer_step/outer_step_math.h"

namespace pulse::kernels {

void OuterStepRef(const OuterScalars& scalars, std::span<const float> sum,
                  std::span<float> momentum, std::span<float> theta) {
  for (size_t i = 0; i < theta.size(); ++i) {
    OuterStepElement(scalars, sum[i], momentum[i], theta[i]);
  }
}

}  // namespace pulse::kernels
