// The bodies of grid_values.h, for the list and the tests alone.
#pragma once

#include "kernels/grid_values/grid_values.h"

namespace pulse::kernels {

void SplitValuesRef(unsigned coarser, std::span<const uint32_t> theta,
                    std::span<const uint32_t> values, uint32_t* symbols, uint32_t* plain);
void JoinValuesRef(unsigned coarser, std::span<const uint32_t> theta, const uint32_t* symbols,
                   const uint32_t* tails, uint32_t* values);
void SplitValuesSimd(unsigned coarser, std::span<const uint32_t> theta,
                     std::span<const uint32_t> values, uint32_t* symbols, uint32_t* plain);
void JoinValuesSimd(unsigned coarser, std::span<const uint32_t> theta, const uint32_t* symbols,
                    const uint32_t* tails, uint32_t* values);

}  // namespace pulse::kernels
