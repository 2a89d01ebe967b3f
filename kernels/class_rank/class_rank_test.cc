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
  EXPECT_EQ(body.rank(classes.span(), {}, nullptr), sizes);

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

TEST(ClassRank, ClassifiesWordsOfAnyLayoutDownFromTheGivenExponent) {
  const std::vector<uint16_t> bf16 = {0x3f80, 0xbf00, 0x4000, 0x3680, 0x0000, 0x7fc1};
  std::vector<uint8_t> classes(bf16.size());
  Reference().classify_words(AsBytes(std::span(bf16)), {2, 7, 0xff}, 127, classes);
  EXPECT_EQ(classes, (std::vector<uint8_t>{0, 1, 0, 15, 15, 0}));
  const Bytes e4m3 = {0x00, 0x78, 0xf0, 0x09};
  classes.resize(4);
  Reference().classify_words(e4m3, {1, 3, 0x0f}, 15, classes);
  EXPECT_EQ(classes, (std::vector<uint8_t>{15, 0, 1, 14}));
}

TEST(ClassRank, EveryBodyClassifiesWordsLikeTheReference) {
  constexpr WordLayout kLayouts[] = {{1, 3, 0x0f},  {1, 2, 0x1f}, {1, 0, 0xff},
                                     {1, 0, 0},     {2, 7, 0xff}, {2, 10, 0x1f},
                                     {4, 23, 0xff}, {4, 0, 0},    {8, 52, 0x7ff}};
  OnEveryTarget([&] {
    for (const ClassRankBody& body : ClassRankBodies()) {
      for (const WordLayout& layout : kLayouts) {
        for (const size_t n : kAwkwardSizes) {
          Rng rng(4, {.sample = static_cast<uint32_t>(n)});
          Bytes bytes(n * layout.word_bytes);
          for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
          const uint32_t top = layout.exponent_mask - layout.exponent_mask / 4;
          std::vector<uint8_t> expected(n);
          Reference().classify_words(bytes, layout, top, expected);
          Fenced<uint8_t> words(bytes, n % 3), classes(n, 1);
          body.classify_words(words.span(), layout, top, classes.span());
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), classes.data()))
              << body.name << ", " << n << " words of " << layout.word_bytes;
          ASSERT_TRUE(classes.FenceIsIntact());
        }
      }
    }
  });
}

TEST(ClassRank, EveryBodyAndTargetAgreesWithTheReferenceAndSelectsWhatItRanked) {
  OnEveryTarget([] {
    for (const ClassRankBody& body : ClassRankBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 4099, 20001}) {
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
