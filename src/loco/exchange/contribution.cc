#include "loco/exchange/contribution.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace pulse::loco {
namespace {

// Calls visit(first, positions, values) for the entries in [begin, end), block by block; positions
// are relative to element `first`.
template <typename Visit>
void ForEachRun(const SparseUpdate& update, uint64_t begin, uint64_t end, Visit visit) {
  for (uint64_t b = begin / kSparseBlockElements; b * kSparseBlockElements < end; ++b) {
    const uint64_t first = b * kSparseBlockElements;
    const auto positions = update.BlockPositions(b);
    const auto at = [&](uint64_t element) {
      if (element <= first) return positions.begin();
      if (element - first >= kSparseBlockElements) return positions.end();
      return std::lower_bound(positions.begin(), positions.end(),
                              static_cast<uint32_t>(element - first));
    };
    const auto from = static_cast<size_t>(at(begin) - positions.begin());
    const auto count = static_cast<size_t>(at(end) - positions.begin()) - from;
    visit(first, positions.subspan(from, count), update.BlockValues(b).subspan(from, count));
  }
}

SparseUpdate SliceOfSparse(const SparseUpdate& whole, uint64_t begin, uint64_t end) {
  SparseUpdate slice;
  slice.elements = end - begin;
  uint64_t entries = 0;
  ForEachRun(whole, begin, end,
             [&](uint64_t, auto positions, auto) { entries += positions.size(); });
  slice.positions.reserve(entries);
  slice.values.reserve(entries);
  uint64_t block_end = begin + kSparseBlockElements;  // of the slice's block being filled
  ForEachRun(whole, begin, end, [&](uint64_t first, auto positions, auto values) {
    for (size_t i = 0; i < positions.size(); ++i) {
      const uint64_t element = first + positions[i];
      while (element >= block_end) {
        slice.starts.push_back(slice.positions.size());
        block_end += kSparseBlockElements;
      }
      slice.positions.push_back(static_cast<uint32_t>(element + kSparseBlockElements - block_end));
    }
    slice.values.insert(slice.values.end(), values.begin(), values.end());
  });
  slice.starts.resize(SparseBlocksFor(slice.elements) + 1, slice.values.size());
  return slice;
}

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

}  // namespace

SparseUpdate Slice(const Contribution& whole, uint64_t begin, uint64_t end) {
  if (whole.sparse != nullptr) return SliceOfSparse(*whole.sparse, begin, end);
  if (!whole.dense.empty()) return SparseFromDense(whole.dense.subspan(begin, end - begin));
  return {};
}

void DenseFromSparse(const SparseUpdate& update, uint64_t begin, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  ForEachRun(update, begin, begin + out.size(), [&](uint64_t first, auto positions, auto values) {
    for (size_t i = 0; i < positions.size(); ++i) out[first + positions[i] - begin] = values[i];
  });
}

SparseUpdate SparseFromNonZero(std::span<const float> dense) {
  SparseUpdate update;
  update.elements = dense.size();
  const uint64_t entries = CountNonZero(dense);
  update.positions.reserve(entries);
  update.values.reserve(entries);
  for (uint64_t begin = 0; begin < dense.size(); begin += kSparseBlockElements) {
    const uint64_t end = std::min<uint64_t>(begin + kSparseBlockElements, dense.size());
    for (uint64_t i = begin; i < end; ++i) {
      if (std::bit_cast<uint32_t>(dense[i]) == 0) continue;
      update.positions.push_back(static_cast<uint32_t>(i - begin));
      update.values.push_back(dense[i]);
    }
    update.starts.push_back(update.values.size());
  }
  return update;
}

uint64_t CountNonZero(std::span<const float> dense) {
  uint64_t count = 0;
  for (const float value : dense) count += std::bit_cast<uint32_t>(value) != 0 ? 1 : 0;
  return count;
}

}  // namespace pulse::loco
