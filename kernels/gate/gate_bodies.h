// The bodies of gate.h, for the list and the tests alone.
#pragma once

#include "kernels/gate/gate.h"

namespace pulse::kernels {

size_t GateRef(GateView view, std::span<const float> theta, std::span<const float> w,
               std::span<float> residual, uint32_t* positions, float* values);
size_t GateSimd(GateView view, std::span<const float> theta, std::span<const float> w,
                std::span<float> residual, uint32_t* positions, float* values);

}  // namespace pulse::kernels
