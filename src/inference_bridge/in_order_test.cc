#include "inference_bridge/in_order.h"

#include <gtest/gtest.h>

#include <atomic>

namespace pulse {
namespace {

ByteView Number(size_t i, Bytes& scratch) {
  scratch.clear();
  AppendLittle<uint64_t>(i, scratch);
  return scratch;
}

class ForEachInOrderTest : public testing::TestWithParam<int> {};

TEST_P(ForEachInOrderTest, TakesEveryItemOnceAndInOrder) {
  for (const size_t count : {0, 1, 2, 3, 100}) {
    std::vector<uint64_t> taken;
    const Status status = ForEachInOrder(
        count, GetParam(),
        [](size_t i, Bytes& scratch) -> StatusOr<ByteView> { return Number(i, scratch); },
        [&](size_t i, ByteView item) {
          EXPECT_EQ(LoadLittle<uint64_t>(item.data()), i);
          taken.push_back(i);
          return OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(taken.size(), count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(taken[i], i);
  }
}

TEST_P(ForEachInOrderTest, HoldsNoMoreItemsThanThreadsAndOne) {
  std::atomic<size_t> taken = 0;
  std::atomic<bool> ahead = false;
  const auto window = static_cast<size_t>(GetParam()) + 1;
  const Status status = ForEachInOrder(
      200, GetParam(),
      [&](size_t i, Bytes& scratch) -> StatusOr<ByteView> {
        if (i >= taken + window) ahead = true;
        return Number(i, scratch);
      },
      [&](size_t, ByteView) {
        ++taken;
        return OkStatus();
      });
  ASSERT_TRUE(status.ok());
  EXPECT_FALSE(ahead);
}

TEST_P(ForEachInOrderTest, ReturnsTheFirstErrorInTheOrderOfItems) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    size_t taken = 0;
    const Status status = ForEachInOrder(
        50, GetParam(),
        [](size_t i, Bytes& scratch) -> StatusOr<ByteView> {
          if (i >= 7) return DataLoss("item {}", i);
          return Number(i, scratch);
        },
        [&](size_t, ByteView) {
          ++taken;
          return OkStatus();
        });
    EXPECT_EQ(status, DataLoss("item 7"));
    EXPECT_EQ(taken, 7u);
  }
}

TEST_P(ForEachInOrderTest, StopsWhenTheTakerFails) {
  std::atomic<size_t> made = 0;
  const Status status = ForEachInOrder(
      1000, GetParam(),
      [&](size_t i, Bytes& scratch) -> StatusOr<ByteView> {
        ++made;
        return Number(i, scratch);
      },
      [](size_t i, ByteView) { return i == 3 ? Cancelled("enough") : OkStatus(); });
  EXPECT_EQ(status, Cancelled("enough"));
  EXPECT_LE(made, 4u + static_cast<size_t>(GetParam()) + 1);
}

INSTANTIATE_TEST_SUITE_P(Threads, ForEachInOrderTest, testing::Values(1, 2, 7));

}  // namespace
}  // namespace pulse
