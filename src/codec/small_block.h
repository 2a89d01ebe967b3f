// What encoder and decoder of a block in codec "small" have in common.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/class_rank/class_rank.h"

namespace pulse {

// Two classes share a code of values: a code of its own for each gains less than its lengths cost.
inline constexpr size_t kClassesPerCode = 2;
inline constexpr size_t kSmallCodes = kernels::kRankClasses / kClassesPerCode;

constexpr size_t CodeOf(size_t theta_class) {
  return theta_class / kClassesPerCode;
}

inline uint32_t BitsOf(float value) {
  return std::bit_cast<uint32_t>(value);
}

}  // namespace pulse
