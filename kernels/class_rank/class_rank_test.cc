#include "kernels/class_rank/class_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "core/rng.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

const ClassRankBody& Reference() {
  return ClassRankBodies().front();
}

TEST(ClassRank, CountsClassesDownFromTheLargestExponent) {
  const std::vector<float> theta = {0.5f, -1.0f, 0.26f, 0.0f, 1.99f, 0x1p-14f, 0x1p-15f};
  std::vector<uint8_t> classes(theta.size());
  Reference().classify(theta, classes);
  EXPECT_EQ(classes, (std::vector<uint8_t>{1, 0, 2, 15, 0, 14, 15}));
}

TEST(ClassRank, RanksAPositionAmongItsOwnClass) {
  const std::vector<uint8_t> classes = {0, 1, 0, 1, 1, 15};
  const std::vector<uint32_t> positions = {0, 2, 4, 5};
  std::vector<uint32_t> ranks(positions.size());
  const ClassCounts sizes = Reference().rank(classes, positions, ranks.data());
  EXPECT_EQ(ranks, (std::vector<uint32_t>{0, 1, 2, 0}));
  EXPECT_EQ(sizes[0], 2u);
  EXPECT_EQ(sizes[1], 3u);
  EXPECT_EQ(sizes[2], 0u);
  EXPECT_EQ(sizes[15], 1u);
}

// Normal weights with awkward ones between, and positions of one element in `gap`.
struct Case {
  std::vector<float> theta;
  std::vector<uint32_t> positions;
};

Case MakeCase(size_t n, uint32_t gap) {
  Rng rng(3, {.sample = static_cast<uint32_t>(n)});
  const std::vector<float> awkward = AwkwardFloats(n, 9);
  Case made;
  for (size_t i = 0; i < n; ++i) {
    made.theta.push_back(gap != 2 ? rng.Normal() : awkward[i]);
    if (rng.Below(gap) == 0) made.positions.push_back(static_cast<uint32_t>(i));
  }
  return made;
}

void ExpectLikeTheReference(const ClassRankBody& body, Case& made, size_t shift) {
  const size_t n = made.theta.size(), m = made.positions.size();
  std::vector<uint8_t> expected(n);
  Reference().classify(made.theta, expected);
  Fenced<float> theta(std::span<const float>(made.theta), 4 * shift);
  Fenced<uint8_t> classes(n, shift);
  body.classify(theta.span(), classes.span());
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), classes.data()));

  std::vector<uint32_t> expected_ranks(m);
  const ClassCounts sizes = Reference().rank(expected, made.positions, expected_ranks.data());
  Fenced<uint32_t> ranks(m);
  EXPECT_EQ(body.rank(classes.span(), made.positions, ranks.data()), sizes);
  EXPECT_TRUE(std::equal(expected_ranks.begin(), expected_ranks.end(), ranks.data()));

  ClassCounts entries = {};
  std::vector<uint32_t> by_class;
  for (uint8_t c = 0; c < kRankClasses; ++c) {
    for (size_t i = 0; i < m; ++i) {
      if (expected[made.positions[i]] != c) continue;
      by_class.push_back(expected_ranks[i]);
      ++entries[c];
    }
  }
  Fenced<uint32_t> grouped{std::span<const uint32_t>(by_class)};
  Fenced<uint32_t> positions(m);
  body.select(classes.span(), entries, grouped.data(), positions.data());
  EXPECT_TRUE(std::equal(made.positions.begin(), made.positions.end(), positions.data()));
  EXPECT_TRUE(classes.FenceIsIntact() && ranks.FenceIsIntact() && positions.FenceIsIntact());
}

TEST(ClassRank, EveryBodyAndTargetAgreesWithTheReferenceAndSelectsWhatItRanked) {
  OnEveryTarget([] {
    for (const ClassRankBody& body : ClassRankBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 4099}) {
        for (const uint32_t gap : {1u, 2u, 20u, 500u}) {
          Case made = MakeCase(n, gap);
          ExpectLikeTheReference(body, made, n % 3);
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
