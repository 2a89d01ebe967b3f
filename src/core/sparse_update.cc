#include "core/sparse_update.h"

#include <algorithm>

namespace pulse {

Status Validate(const SparseUpdate& update) {
  const uint64_t blocks = SparseBlocksFor(update.elements);
  if (update.starts.size() != blocks + 1 || update.starts.front() != 0 ||
      update.starts.back() != update.positions.size() ||
      update.positions.size() != update.values.size()) {
    return DataLoss("sparse update over {} elements: its blocks do not add up", update.elements);
  }
  for (uint64_t b = 0; b < blocks; ++b) {
    if (update.starts[b] > update.starts[b + 1]) {
      return DataLoss("sparse update: block {} ends before it starts", b);
    }
  }
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint64_t size =
        std::min(kSparseBlockElements, update.elements - b * kSparseBlockElements);
    const auto positions = update.BlockPositions(b);
    for (size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] >= size || (i > 0 && positions[i] <= positions[i - 1])) {
        return DataLoss("sparse update: position {} of block {} is out of order or range", i, b);
      }
    }
  }
  return OkStatus();
}

}  // namespace pulse
