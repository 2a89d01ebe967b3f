#include "loco/exchange/contribution.h"

#include <algorithm>
#include <numeric>

namespace pulse::loco {

SparseUpdate SparseFromDense(std::span<const float> dense) {
  SparseUpdate update;
  update.elements = dense.size();
  update.values.assign(dense.begin(), dense.end());
  update.positions.resize(dense.size());
  for (uint64_t begin = 0; begin < dense.size(); begin += kSparseBlockElements) {
    const uint64_t end = std::min<uint64_t>(begin + kSparseBlockElements, dense.size());
    std::iota(update.positions.begin() + static_cast<ptrdiff_t>(begin),
              update.positions.begin() + static_cast<ptrdiff_t>(end), 0u);
    update.starts.push_back(end);
  }
  return update;
}

void DenseFromSparse(const SparseUpdate& update, uint64_t first_block, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (uint64_t b = 0; b < SparseBlocksFor(out.size()); ++b) {
    const auto positions = update.BlockPositions(first_block + b);
    const auto values = update.BlockValues(first_block + b);
    float* const block = out.data() + b * kSparseBlockElements;
    for (size_t i = 0; i < positions.size(); ++i) block[positions[i]] = values[i];
  }
}

}  // namespace pulse::loco
