// The compiler's half of the arithmetic contract: plain expressions whose bits change when a flag
// of cmake/pulse_flags.cmake is taken away. Inputs are volatile, so that nothing is folded at
// compile time; every expected value is exact, by the comment beside it.
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/arithmetic/arithmetic.h"

namespace pulse {
namespace {

uint32_t Bits(float x) {
  return std::bit_cast<uint32_t>(x);
}

TEST(Compiler, KeepsTheProcessInTheContractsMode) {
  EXPECT_EQ(kernels::CheckArithmetic(), OkStatus());
}

TEST(Compiler, ComputesFloatInFloat) {
  EXPECT_EQ(FLT_EVAL_METHOD, 0);
  volatile float largest = FLT_MAX, two = 2;
  volatile double largest64 = DBL_MAX, two64 = 2;
  // x87 registers have room for the intermediate value.
  EXPECT_EQ(Bits(largest * two / two), 0x7F800000u);
  EXPECT_EQ(largest64 * two64 / two64, std::numeric_limits<double>::infinity());
}

// (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24. The product rounds to 1 + 2^-11 (a tie, to even); fused with
// the sum it keeps 2^-24.
TEST(Compiler, RoundsProductsBeforeSums) {
  volatile float a = 1 + 0x1p-12f, rounded_square = 1 + 0x1p-11f;
  EXPECT_EQ(Bits(a * a - rounded_square), 0u);
  EXPECT_EQ(Bits(rounded_square - a * a), 0u);
  EXPECT_EQ(Bits(-rounded_square + a * a), 0u);
  volatile double a64 = 1 + 0x1p-27, rounded_square64 = 1 + 0x1p-26;  // the same in double
  EXPECT_EQ(a64 * a64 - rounded_square64, 0);
}

TEST(Compiler, RoundsProductsBeforeSumsInVectorizedLoops) {
  std::vector<float> a(64, 1 + 0x1p-12f), c(64, -1 - 0x1p-11f);
  for (size_t i = 0; i < a.size(); ++i) c[i] = c[i] + a[i] * a[i];
  for (const float x : c) ASSERT_EQ(Bits(x), 0u);
}

TEST(Compiler, KeepsTheOrderOfSums) {
  volatile float one = 1, big = 0x1p24f;  // one + big is a tie that rounds to big
  EXPECT_EQ(one + big - big, 0);
  EXPECT_EQ(big - big + one, 1);
  std::vector<float> terms;
  for (int i = 0; i < 64; ++i) terms.insert(terms.end(), {1, 0x1p24f, -0x1p24f});
  float sum = 0;
  for (const float x : terms) sum += x;
  EXPECT_EQ(sum, 0);  // every one is lost; a sum by lanes keeps some
}

// 5 * (1/3.0f) is 0x1.aaaaacp+0, and likewise for 7 and 10. Divisions that share a divisor tempt.
TEST(Compiler, DividesInsteadOfMultiplyingWithTheReciprocal) {
  volatile float five = 5, seven = 7, ten = 10, three = 3;
  const float a = five, b = seven, c = ten, divisor = three;
  const float quotients[] = {a / divisor, b / divisor, c / divisor};
  EXPECT_EQ(quotients[0], 0x1.aaaaaap+0f);
  EXPECT_EQ(quotients[1], 0x1.2aaaaap+1f);
  EXPECT_EQ(quotients[2], 0x1.aaaaaap+1f);
}

// Over significands at a stride, in a loop that is vectorized: an estimate with a Newton step
// misses many. x = n * 2^-23 or n * 2^-22 with x in [1, 4), root = r * 2^-23, so in integers the
// root is the nearest iff (r - 1/2)^2 < x * 2^46 < (r + 1/2)^2.
TEST(Compiler, RoundsSquareRootsCorrectly) {
  std::vector<float> squares, roots;
  for (uint32_t bits = 0x3F800000; bits < 0x40800000; bits += 4099) {
    squares.push_back(std::bit_cast<float>(bits));
  }
  roots.resize(squares.size());
  for (size_t i = 0; i < squares.size(); ++i) roots[i] = std::sqrt(squares[i]);
  for (size_t i = 0; i < squares.size(); ++i) {
    const auto square = static_cast<uint64_t>(static_cast<double>(squares[i]) * 0x1p46);
    const auto r = static_cast<uint64_t>(static_cast<double>(roots[i]) * 0x1p23);
    ASSERT_LT(r * r - r, square) << squares[i];
    ASSERT_LE(square, r * r + r) << squares[i];
  }
}

TEST(Compiler, KeepsDenormals) {
  volatile float smallest_normal = FLT_MIN, half = 0.5f, denormal = std::bit_cast<float>(3u);
  EXPECT_EQ(Bits(smallest_normal * half), 0x00400000u);
  EXPECT_EQ(Bits(denormal + denormal), 6u);
  EXPECT_EQ(Bits(denormal * half), 2u);  // 1.5 units: a tie, to even
  volatile float a = FLT_MIN * 1.5f, b = FLT_MIN;
  EXPECT_EQ(Bits(a - b), 0x00400000u);
}

TEST(Compiler, KnowsNaNInfinityAndTheSignOfZero) {
  volatile float nan = std::bit_cast<float>(0x7FC00000u),
                 infinity = std::bit_cast<float>(0x7F800000u);
  EXPECT_TRUE(nan != nan);
  EXPECT_FALSE(nan == nan);
  EXPECT_TRUE(infinity - infinity != infinity - infinity);
  EXPECT_EQ(Bits(kernels::Canonical(-nan)), kernels::kCanonicalNaN);
  volatile float minus_zero = -0.0f, zero = 0;
  EXPECT_EQ(Bits(minus_zero + zero), 0u);
  EXPECT_EQ(Bits(zero - zero), 0u);
  EXPECT_EQ(Bits(minus_zero * infinity != minus_zero * infinity ? minus_zero : zero), 0x80000000u);
}

}  // namespace
}  // namespace pulse
