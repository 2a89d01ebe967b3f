#include "kernels/class_rank/class_rank_bodies.h"

namespace pulse::kernels {

std::span<const ClassRankBody> ClassRankBodies() {
  static constexpr ClassRankBody kBodies[] = {{.name = "reference",
                                               .classify = ClassifyRef,
                                               .classify_words = ClassifyWordsRef,
                                               .rank = RankRef,
                                               .select = SelectRef},
                                              {.name = "simd",
                                               .classify = ClassifySimd,
                                               .classify_words = ClassifyWordsSimd,
                                               .rank = RankSimd,
                                               .select = SelectSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
