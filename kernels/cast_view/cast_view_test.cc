#include "kernels/cast_view/cast_view.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

uint16_t Cast(uint32_t bits) {
  const std::vector<float> in = {FromBits(bits)};
  std::vector<uint16_t> out(1);
  CastToBF16Bodies().front().run(in, out);
  return out[0];
}

TEST(CastToBF16, RoundsToNearest) {
  EXPECT_EQ(Cast(0x3F800000), 0x3F80);  // 1
  EXPECT_EQ(Cast(0x3F807FFF), 0x3F80);  // just below the middle
  EXPECT_EQ(Cast(0x3F808001), 0x3F81);  // just above it
  EXPECT_EQ(Cast(0xC0490FDB), 0xC049);  // -pi
}

TEST(CastToBF16, RoundsTiesToEven) {
  EXPECT_EQ(Cast(0x3F808000), 0x3F80);
  EXPECT_EQ(Cast(0x3F818000), 0x3F82);
  EXPECT_EQ(Cast(0xBF808000), 0xBF80);
  EXPECT_EQ(Cast(0x3FFF8000), 0x4000);  // carries into the exponent
}

TEST(CastToBF16, OverflowsToInfinity) {
  EXPECT_EQ(Cast(0x7F7F7FFF), 0x7F7F);  // rounds to the largest finite value
  EXPECT_EQ(Cast(0x7F7F8000), 0x7F80);  // a tie; the odd neighbour is finite
  EXPECT_EQ(Cast(0xFF7FFFFF), 0xFF80);
  EXPECT_EQ(Cast(0x7F800000), 0x7F80);
}

TEST(CastToBF16, KeepsDenormals) {
  EXPECT_EQ(Cast(0x00000001), 0x0000);
  EXPECT_EQ(Cast(0x00008000), 0x0000);  // a tie
  EXPECT_EQ(Cast(0x00008001), 0x0001);
  EXPECT_EQ(Cast(0x80018000), 0x8002);  // a tie
  EXPECT_EQ(Cast(0x007FFFFF), 0x0080);  // up to the smallest normal
}

TEST(CastToBF16, KeepsTheSignOfZero) {
  EXPECT_EQ(Cast(0x00000000), 0x0000);
  EXPECT_EQ(Cast(0x80000000), 0x8000);
}

TEST(CastToBF16, QuietsANaNAndKeepsItsSignAndUpperPayload) {
  EXPECT_EQ(Cast(0x7F800001), 0x7FC0);  // would be infinity if truncated
  EXPECT_EQ(Cast(0x7FC12345), 0x7FC1);
  EXPECT_EQ(Cast(0xFF812345), 0xFFC1);
  EXPECT_EQ(Cast(0x7FFFFFFF), 0x7FFF);  // would be -0 if rounded
}

// Every BF16 cell at its ends, middle and beside them, against distances in double.
TEST(CastToBF16, PicksTheNearerNeighbourInEveryCell) {
  for (uint32_t upper = 0; upper < 0x7F7F; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const uint32_t bits = upper << 16 | lower;
      const double below = double{FromBits(bits)} - double{FromBits(upper << 16)};
      const double above = double{FromBits((upper + 1) << 16)} - double{FromBits(bits)};
      const bool up = above < below || (above == below && upper % 2 == 1);
      ASSERT_EQ(Cast(bits), up ? upper + 1 : upper) << std::hex << bits;
      ASSERT_EQ(Cast(bits | 0x80000000), 0x8000 | (up ? upper + 1 : upper)) << std::hex << bits;
    }
  }
}

TEST(CastToBF16, EveryBodyGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const CastToBF16Body& body : CastToBF16Bodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : kAwkwardSizes) {
        const std::vector<float> values = AwkwardFloats(n, static_cast<uint32_t>(n));
        Fenced<float> in(values, 4);
        Fenced<uint16_t> out(n, 2), expected(n);
        CastToBF16Bodies().front().run(values, expected.span());
        body.run(in.span(), out.span());
        ASSERT_EQ(Copy(out.span()), Copy(expected.span())) << n;
        ASSERT_TRUE(out.FenceIsIntact()) << n;
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
