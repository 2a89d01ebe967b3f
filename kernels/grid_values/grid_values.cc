#include "kernels/grid_values/grid_values_bodies.h"

namespace pulse::kernels {

std::span<const GridValuesBody> GridValuesBodies() {
  static constexpr GridValuesBody kBodies[] = {
      {.name = "reference", .split = SplitValuesRef, .join = JoinValuesRef},
      {.name = "simd", .split = SplitValuesSimd, .join = JoinValuesSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
