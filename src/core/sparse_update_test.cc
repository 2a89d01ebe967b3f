#include "core/sparse_update.h"

#include <gtest/gtest.h>

#include <limits>

namespace pulse {
namespace {

SparseUpdate Good() {
  return {.elements = kSparseBlockElements + 10,
          .starts = {0, 2, 3},
          .positions = {0, kSparseBlockElements - 1, 9},
          .values = {1, 2, 3}};
}

TEST(SparseUpdate, ValidOnesPassAndSplitIntoBlocks) {
  const SparseUpdate update = Good();
  EXPECT_TRUE(Validate(update).ok());
  EXPECT_EQ(update.blocks(), 2u);
  EXPECT_EQ(update.BlockValues(1)[0], 3);
  EXPECT_TRUE(Validate(SparseUpdate{}).ok());
}

TEST(SparseUpdate, CountsBlocksUpToTheLastElementNumber) {
  EXPECT_EQ(SparseBlocksFor(0), 0u);
  EXPECT_EQ(SparseBlocksFor(1), 1u);
  EXPECT_EQ(SparseBlocksFor(kSparseBlockElements), 1u);
  EXPECT_EQ(SparseBlocksFor(kSparseBlockElements + 1), 2u);
  EXPECT_EQ(SparseBlocksFor(std::numeric_limits<uint64_t>::max()), uint64_t{1} << 44);
  SparseUpdate none;
  none.elements = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(Validate(none).code(), absl::StatusCode::kDataLoss);
}

TEST(SparseUpdate, EveryBrokenPromiseIsFound) {
  SparseUpdate u = Good();
  u.positions[2] = 10;
  EXPECT_FALSE(Validate(u).ok());
  u = Good();
  std::swap(u.positions[0], u.positions[1]);
  EXPECT_FALSE(Validate(u).ok());
  u = Good();
  u.values.pop_back();
  EXPECT_FALSE(Validate(u).ok());
  u = Good();
  u.starts = {0, 3};
  EXPECT_FALSE(Validate(u).ok());
  u = Good();
  u.starts = {0, 4, 3};
  EXPECT_FALSE(Validate(u).ok());
}

}  // namespace
}  // namespace pulse
