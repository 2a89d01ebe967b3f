#include "kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

const ReduceBody& Reference() {
  return ReduceBodies().front();
}

TEST(AddDense, AddsToWhatTheSumHolds) {
  std::vector<float> sum = {1, 2, -0.5f};
  Reference().add_dense(sum, std::vector<float>{0.25f, -2, 0.5f});
  EXPECT_EQ(sum, (std::vector<float>{1.25f, 0, 0}));
}

// 2^24 + 1 is a tie that goes to 2^24: the one is lost, unless it is added last.
TEST(AddDense, SumsInCallOrder) {
  std::vector<float> one_first = {0}, one_last = {0};
  for (const float x : {1.0f, 0x1p24f, -0x1p24f}) {
    Reference().add_dense(one_first, std::vector<float>{x});
  }
  for (const float x : {0x1p24f, -0x1p24f, 1.0f}) {
    Reference().add_dense(one_last, std::vector<float>{x});
  }
  EXPECT_EQ(one_first[0], 0);
  EXPECT_EQ(one_last[0], 1);
}

TEST(AddDense, StartingAtPlusZeroNeverEndsAtMinusZero) {
  std::vector<float> sum = {0.0f};
  Reference().add_dense(sum, std::vector<float>{-0.0f});
  EXPECT_EQ(ToBits(sum[0]), 0u);
}

TEST(AddDense, StoresTheCanonicalNaN) {
  const float infinity = FromBits(0x7F800000);
  std::vector<float> sum = {FromBits(0xFFC12345), infinity, 1, FromBits(0x7F800001)};
  Reference().add_dense(
      sum, std::vector<float>{1, -infinity, FromBits(0xFF800001), FromBits(0xFFFFFFFF)});
  for (const float x : sum) EXPECT_EQ(ToBits(x), 0x7FC00000u);
}

TEST(AddSparse, TouchesOnlyThePositionsItIsGiven) {
  const float signalling = FromBits(0x7F800001);
  std::vector<float> sum = {1, signalling, 3, -0.0f, 5};
  Reference().add_sparse(sum, std::vector<uint32_t>{0, 4}, std::vector<float>{10, -5});
  ExpectSameBits(sum, std::vector<float>{11, signalling, 3, -0.0f, 0}, "sum");
}

TEST(Mean, DividesInsteadOfMultiplyingWithTheReciprocal) {
  std::vector<float> sum = {5, 6, FromBits(1)};
  Reference().mean(sum, 3);
  EXPECT_EQ(sum, (std::vector<float>{0x1.aaaaaap+0f, 2, 0}));  // 5 * (1/3.0f) is 0x1.aaaaacp+0
}

TEST(Reduce, EveryBodyGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const ReduceBody& body : ReduceBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : kAwkwardSizes) {
        std::vector<float> expected = AwkwardFloats(n, 1);
        const std::vector<float> addends = AwkwardFloats(n, 2);
        std::vector<uint32_t> positions;
        for (uint32_t i = 0; i < n; i += 1 + i % 5) positions.push_back(i);
        const std::vector<float> values = AwkwardFloats(positions.size(), 3);
        Fenced<float> sum(expected, 4), addend(addends, 8);
        Reference().add_dense(expected, addends);
        body.add_dense(sum.span(), addend.span());
        ExpectSameBits(sum.span(), expected, "dense sum");
        Reference().add_sparse(expected, positions, values);
        body.add_sparse(sum.span(), positions, values);
        ExpectSameBits(sum.span(), expected, "sparse sum");
        Reference().mean(expected, 3);
        body.mean(sum.span(), 3);
        ExpectSameBits(sum.span(), expected, "mean");
        ASSERT_TRUE(sum.FenceIsIntact());
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
