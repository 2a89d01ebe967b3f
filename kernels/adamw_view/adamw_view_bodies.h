// The bodies of adamw_view.h, for the list and the tests alone.
#pragma once

#include "kernels/adamw_view/adamw_view.h"

namespace pulse::kernels {

size_t AdamWViewRef(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                    std::span<float> v, std::span<const float> g, std::span<uint16_t> view,
                    uint32_t* positions);
size_t AdamWViewSimd(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                     std::span<float> v, std::span<const float> g, std::span<uint16_t> view,
                     uint32_t* positions);

}  // namespace pulse::kernels
