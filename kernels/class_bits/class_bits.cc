#include "kernels/class_bits/class_bits_bodies.h"

namespace pulse::kernels {

std::span<const ClassBitsBody> ClassBitsBodies() {
  static constexpr ClassBitsBody kBodies[] = {
      {.name = "reference", .split = SplitByClassRef, .join = JoinClassesRef, .list = ListOnesRef},
      {.name = "simd", .split = SplitByClassSimd, .join = JoinClassesSimd, .list = ListOnesSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
