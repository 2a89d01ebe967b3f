#include "kernels/adamw/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

// Every intermediate value is exact, so this can be done by hand.
TEST(AdamW, TakesTheStepOfItsFormula) {
  const AdamWScalars scalars = {.decay = 0.5f,
                                .beta1 = 0.5f,
                                .one_minus_beta1 = 0.5f,
                                .beta2 = 0.75f,
                                .one_minus_beta2 = 0.25f,
                                .step_size = 0.5f,
                                .root_correction2 = 2,
                                .epsilon = 1};
  std::vector<float> w = {8}, m = {2}, v = {16};
  const std::vector<float> g = {4};
  AdamWBodies().front().run(scalars, w, m, v, g);
  EXPECT_EQ(m[0], 3);     // 0.5 * 2 + 0.5 * 4
  EXPECT_EQ(v[0], 16);    // 0.75 * 16 + (0.25 * 4) * 4
  EXPECT_EQ(w[0], 3.5f);  // 0.5 * 8 - 0.5 * (3 / (4 / 2 + 1))
}

TEST(AdamWScalars, AreTheOptionsCorrectedForTheStep) {
  const AdamWOptions options = {
      .learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.125, .weight_decay = 0.25};
  const AdamWScalars first = AdamWScalars::At(options, 1);
  EXPECT_EQ(first.decay, 0.875f);
  EXPECT_EQ(first.beta1, 0.5f);
  EXPECT_EQ(first.one_minus_beta1, 0.5f);
  EXPECT_EQ(first.beta2, 0.75f);
  EXPECT_EQ(first.one_minus_beta2, 0.25f);
  EXPECT_EQ(first.step_size, 1);            // 0.5 / (1 - 0.5)
  EXPECT_EQ(first.root_correction2, 0.5f);  // sqrt(1 - 0.75)
  EXPECT_EQ(first.epsilon, 0.125f);
  const AdamWScalars third = AdamWScalars::At(options, 3);
  EXPECT_EQ(third.step_size, static_cast<float>(0.5 / 0.875));
  EXPECT_EQ(third.root_correction2, static_cast<float>(std::sqrt(1 - 0.421875)));
}

TEST(AdamWScalars, AgreeWithALongDoublePowerAtEveryAge) {
  const AdamWOptions options = {.learning_rate = 3e-6, .beta1 = 0.9, .beta2 = 0.999};
  for (uint64_t step = 1; step < uint64_t{1} << 40; step += 1 + step / 3) {
    const AdamWScalars scalars = AdamWScalars::At(options, step);
    const auto age = static_cast<long double>(step);
    const auto step_size = static_cast<float>(3e-6 / (1 - std::pow(0.9L, age)));
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(0.999L, age)));
    // 0.9 as a double is off by 2^-55 or so: a float may still round the other way.
    EXPECT_NEAR(scalars.step_size, step_size, step_size * 0x1p-23f) << step;
    EXPECT_NEAR(scalars.root_correction2, root, root * 0x1p-23f) << step;
  }
}

// The textbook form (m-hat, v-hat; a decay apart from the gradient) in double.
TEST(AdamW, FollowsAnIndependentComputationInDouble) {
  const AdamWOptions options = {
      .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
  Rng rng(5, {});
  double w64 = 0.5, m64 = 0, v64 = 0;
  std::vector<float> w = {0.5f}, m = {0}, v = {0};
  for (int step = 1; step <= 200; ++step) {
    const std::vector<float> g = {rng.Normal()};
    AdamWBodies().front().run(AdamWScalars::At(options, static_cast<uint64_t>(step)), w, m, v, g);
    m64 = 0.9 * m64 + 0.1 * double{g[0]};
    v64 = 0.95 * v64 + 0.05 * double{g[0]} * double{g[0]};
    const double m_hat = m64 / (1 - std::pow(0.9, step)), v_hat = v64 / (1 - std::pow(0.95, step));
    w64 -= 1e-3 * 0.1 * w64 + 1e-3 * m_hat / (std::sqrt(v_hat) + 1e-8);
    // A step rounds w by half of 2^-24 at most (w is below one), and the errors add.
    ASSERT_NEAR(w[0], w64, step * 0x1p-24) << step;
    ASSERT_NEAR(m[0], m64, 1e-6) << step;
    ASSERT_NEAR(v[0], v64, 1e-6) << step;
  }
}

TEST(AdamW, MovesByTheLearningRateInItsFirstStep) {
  std::vector<float> w = {0, 0}, m = {0, 0}, v = {0, 0};
  const std::vector<float> g = {1e-3f, -123};
  AdamWBodies().front().run(AdamWScalars::At({.learning_rate = 1e-6, .epsilon = 0}, 1), w, m, v, g);
  EXPECT_NEAR(w[0], -1e-6f, 1e-12f);
  EXPECT_NEAR(w[1], 1e-6f, 1e-12f);
}

TEST(AdamW, StoresTheCanonicalNaN) {
  std::vector<float> w = {1}, m = {FromBits(0x7F812345)}, v = {FromBits(0xFFFFFFFF)};
  const std::vector<float> g = {FromBits(0xFF800001)};
  AdamWBodies().front().run(AdamWScalars::At({}, 1), w, m, v, g);
  EXPECT_EQ(ToBits(w[0]), 0x7FC00000u);
  EXPECT_EQ(ToBits(m[0]), 0x7FC00000u);
  EXPECT_EQ(ToBits(v[0]), 0x7FC00000u);
}

TEST(AdamW, KeepsDenormalMoments) {
  const AdamWScalars scalars = {.decay = 1,
                                .beta1 = 0.5f,
                                .one_minus_beta1 = 0.5f,
                                .beta2 = 0.5f,
                                .one_minus_beta2 = 0.5f,
                                .step_size = 1,
                                .root_correction2 = 1,
                                .epsilon = 1};
  std::vector<float> w = {0}, m = {FromBits(4)}, v = {FromBits(0x80)};
  const std::vector<float> g = {0};
  AdamWBodies().front().run(scalars, w, m, v, g);
  EXPECT_EQ(ToBits(m[0]), 2u);
  EXPECT_EQ(ToBits(v[0]), 0x40u);
  EXPECT_EQ(ToBits(w[0]), 0x80000002u);
}

void ExpectTheReferencesBits(const AdamWBody& body, const AdamWScalars& scalars,
                             std::vector<float> w, std::vector<float> m, std::vector<float> v,
                             const std::vector<float>& g) {
  Fenced<float> fenced_w(w, 4), fenced_m(m, 8), fenced_v(v, 12), fenced_g(g);
  AdamWBodies().front().run(scalars, w, m, v, g);
  body.run(scalars, fenced_w.span(), fenced_m.span(), fenced_v.span(), fenced_g.span());
  ExpectSameBits(fenced_w.span(), w, "w");
  ExpectSameBits(fenced_m.span(), m, "m");
  ExpectSameBits(fenced_v.span(), v, "v");
  ExpectSameBits(fenced_g.span(), g, "g");
  ASSERT_TRUE(fenced_w.FenceIsIntact() && fenced_m.FenceIsIntact() && fenced_v.FenceIsIntact());
}

TEST(AdamW, EveryBodyGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const AdamWBody& body : AdamWBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : kAwkwardSizes) {
        for (const uint64_t step : {1, 7, 1000}) {
          const AdamWScalars scalars = AdamWScalars::At({.weight_decay = 0.1}, step);
          ExpectTheReferencesBits(body, scalars, AwkwardFloats(n, 1), AwkwardFloats(n, 2),
                                  AwkwardFloats(n, 3), AwkwardFloats(n, 4));
          // v is never negative in training: the awkward one gives NaN for half of the lanes.
          std::vector<float> v = AwkwardFloats(n, 5);
          for (float& x : v) x = std::fabs(x) * 1e-6f;
          ExpectTheReferencesBits(body, scalars, AwkwardFloats(n, 6), AwkwardFloats(n, 7), v,
                                  AwkwardFloats(n, 8));
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
