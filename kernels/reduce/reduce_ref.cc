#include "kernels/reduce/reduce_bodies.h"
#include "kernels/reduce/reduce_math.h"

namespace pulse::kernels {

void AddSparseRef(std::span<float> sum, std::span<const uint32_t> positions,
                  std::span<const float> values) {
  for (size_t i = 0; i < positions.size(); ++i) {
    float& at = sum[positions[i]];
    at = AddElement(at, values[i]);
  }
}

void AddDenseRef(std::span<float> sum, std::span<const float> addend) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = AddElement(sum[i], addend[i]);
}

void MeanRef(std::span<float> sum, float trainers) {
  for (float& x : sum) x = MeanElement(x, trainers);
}

}  // namespace pulse::kernels
