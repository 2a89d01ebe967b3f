#include "kernels/adamw/adamw_bodies.h"
#include "kernels/adamw/adamw_math.h"

namespace pulse::kernels {

void AdamWRef(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
              std::span<float> v, std::span<const float> g) {
  for (size_t i = 0; i < w.size(); ++i) AdamWElement(scalars, w[i], m[i], v[i], g[i]);
}

}  // namespace pulse::kernels
