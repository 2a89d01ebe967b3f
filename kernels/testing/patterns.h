// The data that kernels are tested on: awkward sizes and awkward bit patterns.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"

namespace pulse::kernels {

// 0, 1, around every vector length up to 64 lanes, odd, and large enough for many iterations.
inline constexpr std::array<size_t, 22> kAwkwardSizes = {
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000, 4097};

inline float FromBits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline uint32_t ToBits(float x) {
  return std::bit_cast<uint32_t>(x);
}

// A third each: any bits at all; values where rules change (zeros, denormals, the edges of BF16
// cells, infinities, quiet and signalling NaNs of both signs); ordinary weights.
inline std::vector<float> AwkwardFloats(size_t n, uint32_t sample) {
  static constexpr uint32_t kEdges[] = {
      0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00007FFF, 0x00008000, 0x00018000,
      0x007FFFFF, 0x00800000, 0x80800000, 0x3F7FFFFF, 0x3F800000, 0x3F807FFF, 0x3F808000,
      0x3F808001, 0x3F818000, 0xBF808000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0xFF7FFFFF,
      0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF812345, 0x7FC12345};
  Rng rng(1, {.use = RngUse::kTest, .sample = sample});
  std::vector<float> out(n);
  for (float& x : out) {
    switch (rng.Below(3)) {
      case 0:
        x = FromBits(rng.U32());
        break;
      case 1:
        x = FromBits(kEdges[rng.Below(std::size(kEdges))]);
        break;
      default:
        x = rng.Normal() * 0x1p-6f;
        break;
    }
  }
  return out;
}

template <typename T>
std::vector<T> Copy(std::span<T> values) {
  return {values.begin(), values.end()};
}

// Bit by bit: NaNs compare, and +0 is not -0.
inline void ExpectSameBits(std::span<const float> actual, std::span<const float> expected,
                           const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(ToBits(actual[i]), ToBits(expected[i]))
        << what << "[" << i << "] of " << actual.size() << ": " << actual[i] << " for "
        << expected[i];
  }
}

}  // namespace pulse::kernels
