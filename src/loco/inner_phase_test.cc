#include "loco/inner_phase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trainer/synthetic.h"

namespace pulse::loco {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(AllBelow, LooksAtSizesWhereverTheyLie) {
  EXPECT_TRUE(AllBelow({}, 1));
  for (const float bad : {1.0f, -1.0f, 2.0f, kInfinity, -kInfinity, kNaN, -kNaN}) {
    for (size_t at = 0; at < 37; ++at) {
      std::vector<float> x(37, -0.9999999f);
      EXPECT_TRUE(AllBelow(x, 1));
      x[at] = bad;
      EXPECT_FALSE(AllBelow(x, 1)) << bad << " at " << at;
    }
  }
}

// A square of a larger gradient would be infinite in AdamW's second moment for ever.
TEST(GradientBound, KeepsTheSecondMomentFinite) {
  const float largest = std::nextafter(kGradientBound, 0.0f);
  EXPECT_TRUE(std::isfinite(largest * largest));
  EXPECT_FALSE(std::isfinite(2 * kGradientBound * (2 * kGradientBound)));
  const float weight = std::nextafter(kWeightBound, 0.0f);
  EXPECT_TRUE(std::isfinite((weight - -weight) + weight));
}

class InnerPhaseTest : public testing::Test {
 protected:
  InnerPhaseTest() {
    synthetic_.tensors = {{"a", DType::kBF16, {300}}};
    options_.local_steps = 4;
    options_.inner.learning_rate = 1e-3;
  }

  StatusOr<InnerResult> RunOnce() {
    trainer_ = *SyntheticTrainer::Make(synthetic_);
    phase_ = std::make_unique<InnerPhase>(options_, *kernels::ChooseKernels("auto"), clock_,
                                          *trainer_, ranks_, workers_, 2, 5);
    std::vector<float> gradient(300);
    return phase_->Run(state_, gradient);
  }

  SyntheticOptions synthetic_;
  Options options_;
  State state_ = State::Zero(Mode::kPulseLoco, 300);
  RealClock clock_;
  TrainerRanks ranks_{nullptr, {{0, 300}}, nullptr, 1};
  Workers workers_{1};
  std::unique_ptr<SyntheticTrainer> trainer_;
  std::unique_ptr<InnerPhase> phase_;
};

TEST_F(InnerPhaseTest, TakesHStepsFromTheta) {
  state_.theta.assign(300, 0.5f);
  state_.w.assign(300, 77.0f);  // of the round before: not to be used
  const auto result = RunOnce();
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->finite);
  EXPECT_EQ(result->metrics, (Metrics{{"samples", 4}}));
  EXPECT_EQ(state_.step, 4u);
  EXPECT_EQ(state_.theta, std::vector<float>(300, 0.5f));
  for (const float w : state_.w) {
    EXPECT_NEAR(w, 0.5f, 4e-3f);
    EXPECT_NE(w, 0.5f);
  }
}

TEST_F(InnerPhaseTest, NonFiniteGradientTouchesNeitherMomentAndEndsTheRound) {
  state_.round = 2;
  synthetic_.non_finite = {{2, 2 * 4 + 1}};  // the second step of the third round
  synthetic_.errors = {{2, 2 * 4 + 2}};      // would be next
  const auto result = RunOnce();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->finite);
  EXPECT_EQ(state_.step, 1u);
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_TRUE(std::isfinite(state_.m[i]) && std::isfinite(state_.v[i]));
  }
  phase_->TakeBack(state_);
  EXPECT_EQ(state_.m, std::vector<float>(300));
  EXPECT_EQ(state_.v, std::vector<float>(300));
  EXPECT_EQ(state_.step, 0u);
}

TEST_F(InnerPhaseTest, OverlargeWeightsAreNotFinite) {
  state_.residual[7] = kWeightBound;
  EXPECT_FALSE(RunOnce()->finite);
}

}  // namespace
}  // namespace pulse::loco
