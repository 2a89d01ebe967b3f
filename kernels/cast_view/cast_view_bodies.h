// The bodies of cast_view.h, for the list and the tests alone.
#pragma once

#include "kernels/cast_view/cast_view.h"

namespace pulse::kernels {

void CastToBF16Ref(std::span<const float> in, std::span<uint16_t> out);
void CastToBF16Simd(std::span<const float> in, std::span<uint16_t> out);

}  // namespace pulse::kernels
