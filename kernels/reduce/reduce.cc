#include "kernels/reduce/reduce_bodies.h"

namespace pulse::kernels {

std::span<const ReduceBody> ReduceBodies() {
  static constexpr ReduceBody kBodies[] = {{"reference", AddSparseRef, AddDenseRef, MeanRef},
                                           {"simd", AddSparseSimd, AddDenseSimd, MeanSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
