#include "kernels/gate/gate.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

struct Outcome {
  bool visible;
  float value;     // emitted; meaningless if held
  float residual;  // afterwards
};

Outcome GateOne(GateView view, float theta, float w, float residual) {
  float value = 0;
  uint32_t position = 7;
  const size_t count =
      GateBodies().front().run(view, {&theta, 1}, {&w, 1}, {&residual, 1}, &position, &value);
  EXPECT_TRUE(count == 0 || position == 0);
  return {count == 1, value, residual};
}

bool IsSeen(float theta, float s) {
  return GateOne(GateView::kBF16, theta, theta, s).visible;
}

TEST(Gate, EmitsTheRawPseudoGradientAndClearsTheResidual) {
  // s = (1 - 0.75) + 0.001 in FP32, not the rounded difference of the views.
  const float s = 0.25f + 0.001f;
  const Outcome outcome = GateOne(GateView::kBF16, 1, 0.75f, 0.001f);
  EXPECT_TRUE(outcome.visible);
  EXPECT_EQ(outcome.value, s);
  EXPECT_EQ(ToBits(outcome.residual), 0u);
}

TEST(Gate, HoldsBackWhatTheNextForwardPassWouldNotSee) {
  const Outcome outcome = GateOne(GateView::kBF16, 1, 1 - 0x1p-12f, 0x1p-14f);
  EXPECT_FALSE(outcome.visible);
  EXPECT_EQ(outcome.residual, 0x1p-12f + 0x1p-14f);
}

TEST(Gate, LetsHeldEntriesAddUpUntilTheyAreSeen) {
  float residual = 0;
  int rounds = 0;
  while (!GateOne(GateView::kBF16, 1, 1, residual).visible) {
    residual += 0x1p-12f;
    ++rounds;
  }
  // Below one, the half-cell is 2^-9 wide: 8 steps of 2^-12 are a tie (held), the ninth crosses.
  EXPECT_EQ(rounds, 9);
}

// One is a power of two: BF16 spacing is 2^-7 above and 2^-8 below, the half-cells 2^-8 and 2^-9.
TEST(Gate, KnowsTheEdgesOfTheCellAtAPowerOfTwo) {
  EXPECT_FALSE(IsSeen(1, 0x1p-9f));            // 1 - 2^-9: a tie, and 1 is even
  EXPECT_TRUE(IsSeen(1, 0x1p-9f + 0x1p-24f));  // one FP32 step further
  EXPECT_FALSE(IsSeen(1, -0x1p-8f));           // 1 + 2^-8: a tie
  EXPECT_TRUE(IsSeen(1, -0x1p-8f - 0x1p-23f));
}

TEST(Gate, KnowsTheEdgesOfAnOddCell) {
  const float theta = 1 + 0x1p-7f;  // odd: ties leave the cell on both sides
  EXPECT_TRUE(IsSeen(theta, 0x1p-8f));
  EXPECT_FALSE(IsSeen(theta, 0x1p-8f - 0x1p-23f));
  EXPECT_TRUE(IsSeen(theta, -0x1p-8f));
  EXPECT_FALSE(IsSeen(theta, -0x1p-8f + 0x1p-23f));
}

TEST(Gate, SeesTheSmallestStepAcrossAnEdge) {
  const float last_of_its_cell = 1 + 0x1p-8f;  // a tie that rounds down to 1
  EXPECT_TRUE(IsSeen(last_of_its_cell, -0x1p-23f));
  EXPECT_FALSE(IsSeen(last_of_its_cell, 0x1p-23f));
}

TEST(Gate, ComparesSignedZerosAsBits) {
  EXPECT_FALSE(GateOne(GateView::kBF16, 0.0f, 0.0f, 0.0f).visible);
  EXPECT_FALSE(GateOne(GateView::kBF16, -0.0f, -0.0f, 0.0f).visible);
  // s = (-0 - +0) + -0 = -0, and -0 - -0 = +0.
  EXPECT_TRUE(GateOne(GateView::kBF16, -0.0f, 0.0f, -0.0f).visible);
}

TEST(Gate, KeepsDenormalPseudoGradients) {
  const float tiny = FromBits(1);
  EXPECT_EQ(ToBits(GateOne(GateView::kBF16, 1, 1, tiny).residual), 1u);
  EXPECT_EQ(ToBits(GateOne(GateView::kBF16, tiny, 0, 0).residual), 1u);
  EXPECT_TRUE(GateOne(GateView::kF32, tiny, 0, 0).visible);
}

TEST(Gate, TreatsNaNAsAnyOtherValue) {
  const float nan = FromBits(0xFF812345), infinity = FromBits(0x7F800000);
  const Outcome appeared = GateOne(GateView::kBF16, 1, nan, 0);
  EXPECT_TRUE(appeared.visible);
  EXPECT_EQ(ToBits(appeared.value), 0x7FC00000u);
  // A canonical NaN stays one: no bits change, so it is held.
  const Outcome stayed = GateOne(GateView::kBF16, FromBits(0x7FC00000), 1, 0);
  EXPECT_FALSE(stayed.visible);
  EXPECT_EQ(ToBits(stayed.residual), 0x7FC00000u);
  // Inf - Inf.
  EXPECT_TRUE(GateOne(GateView::kBF16, infinity, 1, 0).visible);
}

TEST(Gate, OfF32HoldsOnlyWhatFP32ItselfRoundsAway) {
  EXPECT_FALSE(GateOne(GateView::kF32, 1, 1, 0x1p-25f).visible);  // a tie; 1 is even
  EXPECT_TRUE(GateOne(GateView::kF32, 1, 1, 0x1p-24f).visible);
  EXPECT_FALSE(GateOne(GateView::kBF16, 1, 1, 0x1p-24f).visible);
}

TEST(Gate, LetsEverythingPassWhenOpen) {
  const Outcome zero = GateOne(GateView::kOpen, 1, 1, 0);
  EXPECT_TRUE(zero.visible);
  EXPECT_EQ(ToBits(zero.value), 0u);
  EXPECT_EQ(GateOne(GateView::kOpen, 1, 0.5f, 0.25f).value, 0.75f);
  EXPECT_EQ(GateOne(GateView::kOpen, 1, 0.5f, 0.25f).residual, 0);
}

TEST(Gate, EmitsAscendingPositions) {
  const std::vector<float> theta = {1, 1, 1, 1, 1}, w = {1, 0.5f, 1, 2, 1};
  std::vector<float> residual(5), values(5);
  std::vector<uint32_t> positions(5);
  const size_t count = GateBodies().front().run(GateView::kBF16, theta, w, residual,
                                                positions.data(), values.data());
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(positions[0], 1u);
  EXPECT_EQ(positions[1], 3u);
  EXPECT_EQ(values[0], 0.5f);
  EXPECT_EQ(values[1], -1);
}

struct Block {
  std::vector<float> theta, w, residual;
};

Block AwkwardBlock(size_t n) {
  return {AwkwardFloats(n, 1), AwkwardFloats(n, 2), AwkwardFloats(n, 3)};
}

// Weights that moved by about `step`: with 2^-16 few are seen, with 1 nearly all.
Block TrainedBlock(size_t n, float step) {
  Rng rng(4, {.sample = static_cast<uint32_t>(n)});
  Block block;
  for (size_t i = 0; i < n; ++i) {
    const float theta = rng.Normal() * 0x1p-6f;
    block.theta.push_back(theta);
    block.w.push_back(theta - rng.Normal() * 0x1p-6f * step);
    block.residual.push_back(rng.Normal() * 0x1p-10f * step);
  }
  return block;
}

void ExpectTheReferencesBits(const GateBody& body, GateView view, const Block& block) {
  const size_t n = block.theta.size();
  std::vector<float> expected_residual = block.residual, expected_values(n);
  std::vector<uint32_t> expected_positions(n);
  const size_t expected =
      GateBodies().front().run(view, block.theta, block.w, expected_residual,
                               expected_positions.data(), expected_values.data());
  Fenced<float> theta(block.theta, 4), w(block.w, 8), residual(block.residual), values(n, 4);
  Fenced<uint32_t> positions(n);
  const size_t count =
      body.run(view, theta.span(), w.span(), residual.span(), positions.data(), values.data());
  ASSERT_EQ(count, expected);
  expected_positions.resize(count);
  expected_values.resize(count);
  ASSERT_EQ(Copy(positions.span().first(count)), expected_positions);
  ExpectSameBits(values.span().first(count), expected_values, "values");
  ExpectSameBits(residual.span(), expected_residual, "residual");
  ExpectSameBits(theta.span(), block.theta, "theta");
  ExpectSameBits(w.span(), block.w, "w");
  ASSERT_TRUE(residual.FenceIsIntact() && values.FenceIsIntact() && positions.FenceIsIntact());
}

TEST(Gate, EveryBodyGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const GateBody& body : GateBodies()) {
      SCOPED_TRACE(body.name);
      for (const GateView view : {GateView::kBF16, GateView::kF32, GateView::kOpen}) {
        for (const size_t n : kAwkwardSizes) {
          SCOPED_TRACE(n);
          ExpectTheReferencesBits(body, view, AwkwardBlock(n));
          for (const float step : {0x1p-16f, 0x1p-9f, 1.0f}) {
            ExpectTheReferencesBits(body, view, TrainedBlock(n, step));
          }
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
