#include "kernels/outer_step/outer_step.h"

#include <gtest/gtest.h>

#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

TEST(OuterStep, IsNesterovMomentumOnTheMean) {
  const OuterScalars scalars = {.learning_rate = 0.25f, .momentum = 0.5f, .trainers = 2};
  const std::vector<float> sum = {8, -4};
  std::vector<float> momentum = {2, 0};
  std::vector<float> theta = {10, 1};
  OuterStepBodies().front().run(scalars, sum, momentum, theta);
  // g = 4: b = 1 + 4 = 5, theta = 10 - (4 + 2.5) / 4.   g = -2: b = -2, theta = 1 + (2 + 1) / 4.
  EXPECT_EQ(momentum[0], 5);
  EXPECT_EQ(theta[0], 8.375f);
  EXPECT_EQ(momentum[1], -2);
  EXPECT_EQ(theta[1], 1.75f);
  OuterStepBodies().front().run(scalars, sum, momentum, theta);
  // b = 2.5 + 4 = 6.5, theta = 8.375 - (4 + 3.25) / 4.
  EXPECT_EQ(momentum[0], 6.5f);
  EXPECT_EQ(theta[0], 6.5625f);
}

TEST(OuterStep, IsPlainDescentWithoutMomentum) {
  const std::vector<float> sum = {0.75f};
  std::vector<float> momentum = {123};
  std::vector<float> theta = {2};
  OuterStepBodies().front().run({.learning_rate = 1, .momentum = 0, .trainers = 1}, sum, momentum,
                                theta);
  EXPECT_EQ(theta[0], 1.25f);
}

TEST(OuterStep, DividesByTheTrainersInsteadOfMultiplyingWithTheReciprocal) {
  // 5 * (1/3.0f) is 0x1.aaaaacp+0.
  const std::vector<float> sum = {5};
  std::vector<float> momentum = {0};
  std::vector<float> theta = {0};
  OuterStepBodies().front().run({.learning_rate = 1, .momentum = 0, .trainers = 3}, sum, momentum,
                                theta);
  EXPECT_EQ(momentum[0], 0x1.aaaaaap+0f);
  EXPECT_EQ(theta[0], -0x1.aaaaaap+0f);
}

TEST(OuterStep, StoresTheCanonicalNaN) {
  const std::vector<float> sum = {FromBits(0xFF812345)};
  std::vector<float> momentum = {FromBits(0x7FC54321)};
  std::vector<float> theta = {FromBits(0xFFFFFFFF)};
  OuterStepBodies().front().run({}, sum, momentum, theta);
  EXPECT_EQ(ToBits(momentum[0]), 0x7FC00000u);
  EXPECT_EQ(ToBits(theta[0]), 0x7FC00000u);
}

TEST(OuterStep, EveryBodyGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const OuterStepBody& body : OuterStepBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : kAwkwardSizes) {
        for (const OuterScalars& scalars :
             {OuterScalars{}, OuterScalars{.learning_rate = 1, .momentum = 0, .trainers = 3}}) {
          const std::vector<float> sums = AwkwardFloats(n, 1);
          std::vector<float> expected_momentum = AwkwardFloats(n, 2);
          std::vector<float> expected_theta = AwkwardFloats(n, 3);
          Fenced<float> sum(sums, 4), momentum(expected_momentum, 8), theta(expected_theta);
          OuterStepBodies().front().run(scalars, sums, expected_momentum, expected_theta);
          body.run(scalars, sum.span(), momentum.span(), theta.span());
          ExpectSameBits(sum.span(), sums, "sum");
          ExpectSameBits(momentum.span(), expected_momentum, "momentum");
          ExpectSameBits(theta.span(), expected_theta, "theta");
          ASSERT_TRUE(momentum.FenceIsIntact() && theta.FenceIsIntact());
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
