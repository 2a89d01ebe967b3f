#include "kernels/outer_step/outer_step_bodies.h"

namespace pulse::kernels {

std::span<const OuterStepBody> OuterStepBodies() {
  static constexpr OuterStepBody kBodies[] = {{"reference", OuterStepRef}, {"simd", OuterStepSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
