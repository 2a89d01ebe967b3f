#include <cmath>

#include "kernels/adamw/adamw_bodies.h"

namespace pulse::kernels {

namespace {

// base^exponent by squaring: at most 2 * 64 products, each rounded as IEEE double.
double Power(double base, uint64_t exponent) {
  double power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) power *= base;
    base *= base;
  }
  return power;
}

}  // namespace

AdamWScalars AdamWScalars::At(const AdamWOptions& options, uint64_t step) {
  const double correction1 = 1 - Power(options.beta1, step);
  const double correction2 = 1 - Power(options.beta2, step);
  return {.decay = static_cast<float>(1 - options.learning_rate * options.weight_decay),
          .beta1 = static_cast<float>(options.beta1),
          .one_minus_beta1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .one_minus_beta2 = static_cast<float>(1 - options.beta2),
          .step_size = static_cast<float>(options.learning_rate / correction1),
          .root_correction2 = static_cast<float>(std::sqrt(correction2)),
          .epsilon = static_cast<float>(options.epsilon)};
}

std::span<const AdamWBody> AdamWBodies() {
  static constexpr AdamWBody kBodies[] = {{"reference", AdamWRef}, {"simd", AdamWSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
