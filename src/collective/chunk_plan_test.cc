#include "collective/chunk_plan.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(ChunkPlan, CutsIntoEqualChunksAndAShorterLastOne) {
  const ChunkPlan plan(20, 7);
  EXPECT_EQ(plan.count(), 3u);
  EXPECT_EQ(plan.OffsetOf(2), 14u);
  EXPECT_EQ(plan.BytesOf(1), 7u);
  EXPECT_EQ(plan.BytesOf(2), 6u);
}

TEST(ChunkPlan, HasNoEmptyChunk) {
  EXPECT_EQ(ChunkPlan(0, 7).count(), 0u);
  EXPECT_EQ(ChunkPlan(7, 7).count(), 1u);
  EXPECT_EQ(ChunkPlan(14, 7).BytesOf(1), 7u);
}

TEST(ChunkPlan, CountsPastTheReachOf32Bits) {
  const uint64_t total = (uint64_t{1} << 33) + 5;
  const ChunkPlan wide(total, uint64_t{1} << 26);
  EXPECT_EQ(wide.count(), 129u);
  EXPECT_EQ(wide.OffsetOf(128), uint64_t{1} << 33);
  EXPECT_EQ(wide.BytesOf(128), 5u);
  const ChunkPlan narrow(total, 1);  // the number of chunks itself passes 32 bits
  EXPECT_EQ(narrow.count(), total);
  EXPECT_EQ(narrow.OffsetOf(total - 1), total - 1);
  EXPECT_EQ(narrow.BytesOf(total - 1), 1u);
}

TEST(ChunkPlan, DoesNotOverflowAtTheEndOf64Bits) {
  const ChunkPlan plan(kMax, uint64_t{1} << 30);
  EXPECT_EQ(plan.count(), uint64_t{1} << 34);
  EXPECT_EQ(plan.BytesOf(plan.count() - 1), (uint64_t{1} << 30) - 1);
  EXPECT_EQ(ChunkPlan(kMax, kMax).count(), 1u);
}

TEST(EvenShare, CoversEveryByteOnceInOrder) {
  const uint64_t totals[] = {0, 1, 2, 7, 64, 65, (uint64_t{1} << 33) + 5, kMax};
  for (const uint64_t total : totals) {
    for (const uint64_t parts : {1, 2, 3, 64}) {
      uint64_t at = 0;
      for (uint64_t i = 0; i < parts; ++i) {
        const ByteRange share = EvenShare(total, parts, i);
        EXPECT_EQ(share.offset, at);
        EXPECT_LE(share.bytes - total / parts, 1u);
        at += share.bytes;
      }
      EXPECT_EQ(at, total);
    }
  }
}

}  // namespace
}  // namespace pulse
