#include "kernels/reduce/reduce_bodies.h"

namespace pulse::kernels {

// The sparse sum has one body: scattered entries cost their cache lines (at one entry in ten, 128
// bytes of traffic in about 5 ns), whatever adds them.
std::span<const ReduceBody> ReduceBodies() {
  static constexpr ReduceBody kBodies[] = {{"reference", AddSparseRef, AddDenseRef, MeanRef},
                                           {"simd", AddSparseRef, AddDenseSimd, MeanSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
