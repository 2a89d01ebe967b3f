#include "kernels/adamw_view/adamw_view_bodies.h"
#include "kernels/adamw_view/adamw_view_math.h"

namespace pulse::kernels {

size_t AdamWViewRef(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                    std::span<float> v, std::span<const float> g, std::span<uint16_t> view,
                    uint32_t* positions) {
  size_t count = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    if (AdamWViewElement(scalars, w[i], m[i], v[i], g[i], view[i])) {
      positions[count++] = static_cast<uint32_t>(i);
    }
  }
  return count;
}

}  // namespace pulse::kernels
