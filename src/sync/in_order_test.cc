#include "sync/in_order.h"

#include <gtest/gtest.h>

#include <atomic>

namespace pulse {
namespace {

TEST(ProduceInOrder, GivesResultsInOrderWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    std::vector<size_t> seen;
    const Status status = ProduceInOrder<size_t>(
        1000, threads, [] { return [](size_t i) -> StatusOr<size_t> { return i * i; }; },
        [&](size_t i, size_t result) {
          EXPECT_EQ(result, i * i);
          seen.push_back(i);
          return OkStatus();
        });
    EXPECT_TRUE(status.ok());
    ASSERT_EQ(seen.size(), 1000u);
    EXPECT_TRUE(std::ranges::is_sorted(seen));
  }
}

TEST(ProduceInOrder, ReturnsTheFirstErrorInOrderAndStops) {
  for (const int threads : {1, 4}) {
    std::atomic<size_t> started = 0;
    size_t consumed = 0;
    const Status status = ProduceInOrder<int>(
        100'000, threads,
        [&] {
          return [&](size_t i) -> StatusOr<int> {
            ++started;
            if (i >= 10) return DataLoss("piece {}", i);
            return 0;
          };
        },
        [&](size_t, int) {
          ++consumed;
          return OkStatus();
        });
    EXPECT_EQ(status.message(), "piece 10");
    EXPECT_EQ(consumed, 10u);
    EXPECT_LT(started, 100u);
  }
}

TEST(ProduceInOrder, StopsWhenTheConsumerFails) {
  const Status status = ProduceInOrder<int>(
      1000, 3, [] { return [](size_t) -> StatusOr<int> { return 1; }; },
      [](size_t i, int) { return i == 5 ? Cancelled("enough") : OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace pulse
