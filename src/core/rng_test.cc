#include "core/rng.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pulse {
namespace {

// Known answers of the authors' Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, GivesTheAuthorsKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Rng, IsAFunctionOfItsNameAlone) {
  const RngStream stream{RngUse::kTest, 3, 17, 5};
  Rng a(42, stream), b(42, stream);
  Rng other(42, {RngUse::kTest, 3, 17, 6}), other_use(42, {RngUse::kInit, 3, 17, 5});
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const uint32_t x = a.U32();
    EXPECT_EQ(x, b.U32());
    same += (x == other.U32()) + (x == other_use.U32());
  }
  EXPECT_EQ(same, 0);
}

TEST(Rng, UniformBelowAndNormalHaveTheirMoments) {
  Rng rng(1, {});
  double uniform = 0, normal = 0, square = 0;
  std::array<int, 7> counts = {};
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) {
    const float u = rng.Uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    uniform += u;
    const float z = rng.Normal();
    normal += z;
    square += z * z;
    ++counts[rng.Below(7)];
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.005);
  EXPECT_NEAR(normal / kDraws, 0.0, 0.02);
  EXPECT_NEAR(square / kDraws, 1.0, 0.02);
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 7, 5 * std::sqrt(kDraws / 7.0));
}

}  // namespace
}  // namespace pulse
