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

// Entries of one block, somebody else's: positions relative to the block, strictly ascending.
struct SparseEntries {
  std::span<const uint32_t> positions;
  std::span<const float> values;
};

// Blocks of somebody's SparseUpdate, which must outlive it.
struct SparseUpdateView {
  SparseUpdateView(const SparseUpdate& update)  // NOLINT: an update is a view of all its blocks
      : elements(update.elements),
        starts(update.starts),
        positions(update.positions),
        values(update.values) {}

  uint64_t elements;
  std::span<const uint64_t> starts;  // as in SparseUpdate, but the first need not be 0
  std::span<const uint32_t> positions;
  std::span<const float> values;

  size_t blocks() const { return starts.size() - 1; }
  SparseEntries Block(size_t b) const {
    const uint64_t entries = starts[b + 1] - starts[b];
    return {positions.subspan(starts[b], entries), values.subspan(starts[b], entries)};
  }
  // Elements [begin, end), where both are borders of blocks (end may be that of the last one).
  SparseUpdateView Part(uint64_t begin, uint64_t end) const {
    SparseUpdateView part = *this;
    part.elements = end - begin;
    part.starts = starts.subspan(begin / kSparseBlockElements, SparseBlocksFor(end - begin) + 1);
    return part;
  }
};

// kDataLoss unless all that SparseUpdate promises holds.
Status Validate(const SparseUpdate& update);

}  // namespace pulse
