// The bodies of adamw.h, for the list and the tests alone.
#pragma once

#include "kernels/adamw/adamw.h"

namespace pulse::kernels {

void AdamWRef(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
              std::span<float> v, std::span<const float> g);
void AdamWSimd(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
               std::span<float> v, std::span<const float> g);

}  // namespace pulse::kernels
