#include "kernels/diff/diff_bodies.h"

namespace pulse::kernels {

std::span<const DiffBody> DiffBodies() {
  static constexpr DiffBody kBodies[] = {{"reference", DiffRef}, {"simd", DiffSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
