#include "loco/rounded_values.h"

#include "kernels/gate/rounded_value.h"

namespace pulse::loco {

size_t RoundValues(unsigned q, std::span<const float> theta, std::span<uint32_t> positions,
                   std::span<float> values, std::span<float> residual) {
  size_t kept = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const uint32_t position = positions[i];
    const auto rounded = kernels::RoundValue(q, theta[position], values[i]);
    residual[position] = rounded.rest;
    positions[kept] = position;
    values[kept] = rounded.sent;
    kept += rounded.kept;
  }
  return kept;
}

}  // namespace pulse::loco
