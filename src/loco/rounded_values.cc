#include "loco/rounded_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pulse::loco {
namespace {

constexpr int kDoubleBias = 1023, kFloatBias = 127, kBF16MantissaBits = 7;

// 2^-q times the BF16 spacing at theta. A power of two, far inside what a double holds.
double UnitAt(float theta, int q) {
  const int field = std::max<int>(static_cast<int>(std::bit_cast<uint32_t>(theta) >> 23 & 0xFF), 1);
  const auto exponent = static_cast<uint64_t>(field - kFloatBias - kBF16MantissaBits - q);
  return std::bit_cast<double>((exponent + kDoubleBias) << 52);
}

}  // namespace

size_t RoundValues(unsigned q, std::span<const float> theta, std::span<uint32_t> positions,
                   std::span<float> values, std::span<float> residual) {
  size_t kept = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const uint32_t position = positions[i];
    const float s = values[i];
    // In double both steps are exact but the rounding: a quotient by a power of two, and a product.
    const double unit = UnitAt(theta[position], static_cast<int>(q));
    auto sent = static_cast<float>(std::nearbyint(static_cast<double>(s) / unit) * unit);
    float rest = s - sent;
    const bool exact = static_cast<double>(sent) + static_cast<double>(rest) == s;
    if (!exact || s == 0) {
      sent = s;
      rest = 0;
    }
    residual[position] = rest;
    positions[kept] = position;
    values[kept] = sent;
    kept += sent != 0 || s == 0;
  }
  return kept;
}

}  // namespace pulse::loco
