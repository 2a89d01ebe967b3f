#include "core/dtype.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

TEST(DType, NamesRoundTripAndSizesAreThoseOfSafetensors) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(*DTypeFromName(NameOf(dtype)), dtype);
  }
  EXPECT_EQ(SizeOf(DType::kF8E4M3), 1u);
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kF32), 4u);
  EXPECT_EQ(SizeOf(DType::kI64), 8u);
}

TEST(DType, AnUnknownNameIsNamedInTheError) {
  EXPECT_EQ(DTypeFromName("F4").status().message(), "dtype \"F4\" is not supported");
}

}  // namespace
}  // namespace pulse
