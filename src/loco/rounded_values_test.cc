#include "loco/rounded_values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/rng.h"

namespace pulse::loco {
namespace {

struct One {
  bool sent;
  float value, residual;
};

One Round(unsigned q, float theta, float s) {
  uint32_t position = 0;
  One one = {.sent = false, .value = s, .residual = 0};
  one.sent = RoundValues(q, {&theta, 1}, {&position, 1}, {&one.value, 1}, {&one.residual, 1}) == 1;
  return one;
}

// At 1 the BF16 spacing is 2^-7.
TEST(RoundedValues, RoundsToAFractionOfTheSpacingAtTheta) {
  const One one = Round(2, 1.0f, 0x1p-9f * 3 + 0x1p-12f);
  EXPECT_TRUE(one.sent);
  EXPECT_EQ(one.value, 0x1p-9f * 3);
  EXPECT_EQ(one.residual, 0x1p-12f);
  EXPECT_EQ(Round(2, 1.0f, 0x1p-10f * 5).value, 0x1p-9f * 2);  // halves to even
  EXPECT_EQ(Round(2, 1.0f, 0x1p-10f * 7).value, 0x1p-9f * 4);
  EXPECT_EQ(Round(0, -1.5f, -0x1p-7f * 1.25f).value, -0x1p-7f);
}

TEST(RoundedValues, HoldsBackWhatRoundsToZero) {
  const One one = Round(0, 1.0f, 0x1p-9f);
  EXPECT_FALSE(one.sent);
  EXPECT_EQ(one.residual, 0x1p-9f);
}

TEST(RoundedValues, LeavesAloneWhatItCanNotSplit) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float s : {infinity, -infinity, 0.0f, -0.0f, std::numeric_limits<float>::max()}) {
    const One one = Round(0, std::bit_cast<float>(0x7F000001u), s);
    EXPECT_TRUE(one.sent) << s;
    EXPECT_EQ(std::bit_cast<uint32_t>(one.value), std::bit_cast<uint32_t>(s));
    EXPECT_EQ(one.residual, 0);
  }
  const One nan = Round(4, 1.0f, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(nan.sent && std::isnan(nan.value));
  EXPECT_EQ(nan.residual, 0);
}

TEST(RoundedValues, LosesNothingWhateverTheBits) {
  Rng rng(8, {});
  for (const unsigned q : {0u, 4u, kMostRoundedBits}) {
    std::vector<float> theta, values;
    for (int i = 0; i < 50'000; ++i) {
      theta.push_back(std::bit_cast<float>(rng.U32()));
      // Half of them of theta's size or somewhat below, where rounding has something to do.
      const float near = theta.back() * std::bit_cast<float>((100u + rng.Below(30)) << 23);
      values.push_back(rng.Below(2) == 0 ? std::bit_cast<float>(rng.U32()) : near);
    }
    std::vector<uint32_t> positions(theta.size());
    std::iota(positions.begin(), positions.end(), 0u);
    const std::vector<float> before = values;
    std::vector<float> residual(theta.size()), sent(theta.size());
    const size_t kept = RoundValues(q, theta, positions, values, residual);
    EXPECT_LT(kept, theta.size());
    EXPECT_GT(kept, theta.size() / 4);
    size_t rounded = 0;
    for (size_t i = 0; i < kept; ++i) {
      sent[positions[i]] = values[i];
      rounded += residual[positions[i]] != 0;
    }
    EXPECT_GT(rounded, theta.size() / 20);
    for (size_t i = 0; i < theta.size(); ++i) {
      if (std::isnan(before[i])) continue;
      EXPECT_EQ(static_cast<double>(sent[i]) + static_cast<double>(residual[i]), before[i]) << i;
      EXPECT_EQ(sent[i] + residual[i], before[i]) << i;  // in FP32 too
    }
  }
}

}  // namespace
}  // namespace pulse::loco
