// What one trainer adds to the sum of a round, and how parts of it are cut out.
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
  // Whether elements [begin, end) are whole blocks of a sparse update.
  bool HasBlocksOf(uint64_t begin, uint64_t end) const {
    return sparse != nullptr && begin % kSparseBlockElements == 0 &&
           (end % kSparseBlockElements == 0 || end == sparse->elements);
  }
  uint64_t entries() const { return sparse != nullptr ? sparse->entries() : dense.size(); }
};

// Elements [begin, end) as an update of its own, whose element 0 is `begin`: blocks are cut anew.
// Of a dense array every element is an entry. Nothing of an absent contribution.
SparseUpdate Slice(const Contribution& whole, uint64_t begin, uint64_t end);

// Overwrites `out` with elements [begin, begin + out.size()) of the update.
void DenseFromSparse(const SparseUpdate& update, uint64_t begin, std::span<float> out);

// Every element whose bits are not those of +0, as an entry.
SparseUpdate SparseFromNonZero(std::span<const float> dense);

// How many those are.
uint64_t CountNonZero(std::span<const float> dense);

}  // namespace pulse::loco
