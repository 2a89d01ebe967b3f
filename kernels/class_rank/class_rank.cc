#include "kernels/class_rank/class_rank_bodies.h"

namespace pulse::kernels {

std::span<const ClassRankBody> ClassRankBodies() {
  static constexpr ClassRankBody kBodies[] = {
      {.name = "reference", .classify = ClassifyRef, .rank = RankRef, .select = SelectRef},
      {.name = "simd", .classify = ClassifySimd, .rank = RankSimd, .select = SelectSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
