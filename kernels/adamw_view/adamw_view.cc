#include "kernels/adamw_view/adamw_view_bodies.h"

namespace pulse::kernels {

std::span<const AdamWViewBody> AdamWViewBodies() {
  static constexpr AdamWViewBody kBodies[] = {{"reference", AdamWViewRef}, {"simd", AdamWViewSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
