#include "kernels/grid_values/grid_values_bodies.h"
#include "kernels/grid_values/grid_values_math.h"

namespace pulse::kernels {

void SplitValuesRef(unsigned coarser, std::span<const uint32_t> theta,
                    std::span<const uint32_t> values, uint32_t* symbols, uint32_t* plain) {
  for (size_t i = 0; i < theta.size(); ++i) {
    symbols[i] = SymbolOf(theta[i], values[i]);
    plain[i] = PlainOf(theta[i], values[i], coarser);
  }
}

void JoinValuesRef(unsigned coarser, std::span<const uint32_t> theta, const uint32_t* symbols,
                   const uint32_t* tails, uint32_t* values) {
  for (size_t i = 0; i < theta.size(); ++i) {
    values[i] = ValueOf(theta[i], symbols[i], tails[i], coarser);
  }
}

}  // namespace pulse::kernels
