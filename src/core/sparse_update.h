// The gated (index, value) entries of one trainer in one round, in blocks that can be worked on
// independently.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"

namespace pulse {

// Elements of a flat array per block: positions inside fit 32 bits, however large the array.
inline constexpr uint64_t kSparseBlockElements = uint64_t{1} << 20;

// Entries over `elements` FP32 elements. Block b covers elements [b * kSparseBlockElements, ...)
// and owns entries [starts[b], starts[b + 1]) of positions (relative to the block, strictly
// ascending) and values. A value: owns its arrays.
struct SparseUpdate {
  uint64_t elements = 0;
  std::vector<uint64_t> starts = {0};
  std::vector<uint32_t> positions;
  std::vector<float> values;

  size_t blocks() const { return starts.size() - 1; }
  uint64_t entries() const { return values.size(); }
  std::span<const uint32_t> BlockPositions(size_t b) const {
    return std::span(positions).subspan(starts[b], starts[b + 1] - starts[b]);
  }
  std::span<const float> BlockValues(size_t b) const {
    return std::span(values).subspan(starts[b], starts[b + 1] - starts[b]);
  }
};

// Unlike (elements + block - 1) / block, right for any 64-bit number.
constexpr uint64_t SparseBlocksFor(uint64_t elements) {
  return elements / kSparseBlockElements + (elements % kSparseBlockElements != 0);
}

// kDataLoss unless all that SparseUpdate promises holds.
Status Validate(const SparseUpdate& update);

}  // namespace pulse
