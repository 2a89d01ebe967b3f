#include "core/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

namespace pulse {
namespace {

TEST(Workers, DoEveryPartOnce) {
  for (const size_t threads : {1, 2, 5}) {
    Workers workers(threads);
    EXPECT_EQ(workers.threads(), threads);
    for (const size_t parts : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> done(parts);
      workers.Run(parts, [&](size_t part) { ++done[part]; });
      for (const auto& times : done) ASSERT_EQ(times, 1);
    }
  }
}

TEST(Workers, AreDoneWhenRunReturns) {
  Workers workers(4);
  for (int loop = 0; loop < 2000; ++loop) {
    std::vector<int> parts(4);  // gone after each loop: a late thread would be found by a sanitizer
    workers.Run(parts.size(), [&](size_t part) { parts[part] = loop; });
    for (const int part : parts) ASSERT_EQ(part, loop);
  }
}

std::vector<std::pair<uint64_t, uint64_t>> RangesOf(size_t threads, uint64_t n, uint64_t granule) {
  Workers workers(threads);
  std::mutex mutex;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  RunRanges(workers, n, granule, [&](uint64_t begin, uint64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(RunRanges, CoverEverythingInWholeGranules) {
  EXPECT_EQ(RangesOf(2, 0, 8), Ranges());
  EXPECT_EQ(RangesOf(2, 5, 8), (Ranges{{0, 5}}));
  EXPECT_EQ(RangesOf(2, 16, 8), (Ranges{{0, 8}, {8, 16}}));
  EXPECT_EQ(RangesOf(2, 17, 8), (Ranges{{0, 16}, {16, 17}}));
  EXPECT_EQ(RangesOf(3, 64, 8), (Ranges{{0, 24}, {24, 48}, {48, 64}}));
  EXPECT_EQ(RangesOf(1, 64, 8), (Ranges{{0, 64}}));
}

TEST(RunRanges, DoNotOverflow) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(RangesOf(2, kMost, uint64_t{1} << 63),
            (Ranges{{0, uint64_t{1} << 63}, {uint64_t{1} << 63, kMost}}));
}

}  // namespace
}  // namespace pulse
