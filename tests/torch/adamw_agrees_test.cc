// Our AdamW against torch::optim::AdamW. The operations are the same, but LibTorch computes its
// scalars in double at other places (and may fuse multiply and add), so they agree to rounding, not
// in bits.
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <vector>

#include "core/rng.h"
#include "kernels/adamw/adamw.h"

namespace pulse {
namespace {

constexpr size_t kElements = 1000;
constexpr uint64_t kSteps = 20;

// Weights as language models have them, and gradients over six orders of magnitude, zeros included.
std::vector<float> Draw(uint32_t step, double scale_step) {
  Rng rng(11, {RngUse::kTest, 0, step, 0});
  std::vector<float> values(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    const double scale = 0.02 * std::pow(10.0, -scale_step * static_cast<double>(i % 7));
    values[i] = i % 13 == 12 ? 0.0f : static_cast<float>(scale) * rng.Normal();
  }
  return values;
}

// Weights after kSteps of torch::optim::AdamW.
std::vector<float> TorchWeights(const kernels::AdamWOptions& options, std::vector<float> weights) {
  const at::Tensor parameter =
      at::from_blob(weights.data(), {kElements}).clone().requires_grad_(true);
  torch::optim::AdamW optimizer({parameter}, torch::optim::AdamWOptions(options.learning_rate)
                                                 .betas({options.beta1, options.beta2})
                                                 .eps(options.epsilon)
                                                 .weight_decay(options.weight_decay));
  for (uint32_t step = 1; step <= kSteps; ++step) {
    std::vector<float> gradient = Draw(step, 1);
    parameter.mutable_grad() = at::from_blob(gradient.data(), {kElements}).clone();
    optimizer.step();
  }
  const float* data = parameter.data_ptr<float>();
  return {data, data + kElements};
}

void ExpectAgreement(const kernels::AdamWOptions& options) {
  const std::vector<float> start = Draw(0, 0);
  const std::vector<float> theirs = TorchWeights(options, start);
  for (const kernels::AdamWBody& body : kernels::AdamWBodies()) {
    std::vector<float> weights = start, m(kElements), v(kElements);
    for (uint64_t step = 1; step <= kSteps; ++step) {
      const std::vector<float> gradient = Draw(static_cast<uint32_t>(step), 1);
      body.run(kernels::AdamWScalars::At(options, step), weights, m, v, gradient);
    }
    size_t moved = 0;
    for (size_t i = 0; i < kElements; ++i) {
      // Each step rounds the weight once or twice (half a spacing, |w| 2^-24) and the step itself
      // in some six operations (2^-24 each, of at most a few learning rates).
      const double tolerance =
          kSteps * (2 * std::abs(start[i]) + 20 * options.learning_rate) * 0x1p-24;
      EXPECT_NEAR(weights[i], theirs[i], tolerance) << body.name << " element " << i;
      moved += std::abs(theirs[i] - start[i]) > 100 * tolerance;
    }
    EXPECT_GT(moved, kElements * 4 / 5);  // so that the tolerance tells a step from no step
  }
}

TEST(AdamW, AgreesWithLibTorchToRoundingOverTwentySteps) {
  ExpectAgreement({.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8});
}

TEST(AdamW, AgreesWithLibTorchWithWeightDecayAndOtherBetas) {
  ExpectAgreement(
      {.learning_rate = 1e-3, .beta1 = 0.8, .beta2 = 0.999, .epsilon = 1e-6, .weight_decay = 0.1});
}

}  // namespace
}  // namespace pulse
