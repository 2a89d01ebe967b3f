#include "kernels/cast_view/cast_view_bodies.h"

namespace pulse::kernels {

std::span<const CastToBF16Body> CastToBF16Bodies() {
  static constexpr CastToBF16Body kBodies[] = {{"reference", CastToBF16Ref},
                                               {"simd", CastToBF16Simd}};
  return kBodies;
}

}  // namespace pulse::kernels
