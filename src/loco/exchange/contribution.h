// What one trainer adds to the sum of a round.
#pragma once

#include <cstdint>
#include <span>

#include "core/sparse_update.h"

namespace pulse::loco {

// Nothing (a dropped trainer), a sparse update or a dense array; the caller owns them. A sparse
// update counts as +0 where it has no entry, which adds the same bits as adding nothing: a sum that
// starts at +0 is never -0.
struct Contribution {
  const SparseUpdate* sparse = nullptr;
  std::span<const float> dense;

  bool absent() const { return sparse == nullptr && dense.empty(); }
};

// Every element as an entry.
SparseUpdate SparseFromDense(std::span<const float> dense);

// Overwrites `out` with blocks [first_block, ...) of the update; out covers whole blocks, except
// that the last may be the array's short one.
void DenseFromSparse(const SparseUpdate& update, uint64_t first_block, std::span<float> out);

}  // namespace pulse::loco
