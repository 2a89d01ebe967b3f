#define HWY_WANT_AVX3_DL  // as class_rank_simd.cc, whose targets are tested
#include "kernels/class_rank/class_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/rng.h"
#include "kernels/class_rank/class_rank_math.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

constexpr WordLayout kBf16 = {2, 7, 0xff};

const ClassRankBody& Reference() {
  return ClassRankBodies().front();
}

struct Tiles {
  explicit Tiles(size_t words) : tiles(TilesOf(words)), counts(tiles.size()) {}

  std::vector<ClassTile> tiles;
  std::vector<TileCounts> counts;
};

Tiles Classify(const ClassRankBody& body, ByteView words, const WordLayout& layout, uint32_t top) {
  Tiles made(words.size() / layout.word_bytes);
  body.classify(words, layout, top, made.tiles, made.counts);
  return made;
}

std::vector<uint8_t> ClassesOf(const Tiles& tiles, size_t words) {
  std::vector<uint8_t> classes;
  for (size_t i = 0; i < words; ++i) {
    classes.push_back(ClassAt(tiles.tiles[i / kTileWords], i % kTileWords));
  }
  return classes;
}

uint32_t LargestExponent(const ClassRankBody& body, std::span<const float> theta) {
  Tiles made(theta.size());
  return body.classify(AsBytes(theta), kFloatLayout, 0, made.tiles, made.counts);
}

TEST(ClassRank, TheLargestExponentIsThatOfTheLargestMagnitude) {
  EXPECT_EQ(LargestExponent(Reference(), {}), 0u);
  const std::vector<float> theta = {0.5f, -1.0f, 0.0f, 0.25f};
  EXPECT_EQ(LargestExponent(Reference(), theta), 127u);
}

TEST(ClassRank, ClassesCountDownFromTheGivenExponent) {
  const std::vector<uint16_t> bf16 = {0x3f80, 0xbf00, 0x4000, 0x3680, 0x0000, 0x7fc1};
  const Tiles tiles = Classify(Reference(), AsBytes(std::span(bf16)), kBf16, 127);
  EXPECT_EQ(ClassesOf(tiles, 6), (std::vector<uint8_t>{0, 1, 0, 15, 15, 0}));
  std::array<uint16_t, kRankClasses> counts = {};
  counts[0] = 3;
  counts[1] = 1;
  counts[15] = 2;
  EXPECT_EQ(tiles.counts[0].all, counts) << "what lies behind the words counts for nothing";
  EXPECT_EQ(tiles.counts[0].before[15][0], 0);
  EXPECT_EQ(tiles.counts[0].before[15][1], 2);
  EXPECT_EQ(ClassAt(tiles.tiles[0], 6), 15);
  const Bytes e4m3 = {0x00, 0x78, 0xf0, 0x09};
  EXPECT_EQ(ClassesOf(Classify(Reference(), e4m3, {1, 3, 0x0f}, 15), 4),
            (std::vector<uint8_t>{15, 0, 1, 14}));
}

TEST(ClassRank, RanksAPositionAmongItsOwnClass) {
  const std::vector<uint16_t> words = {0x3f80, 0x3f00, 0x3f80, 0x3f00, 0x3f00, 0};
  const Tiles tiles = Classify(Reference(), AsBytes(std::span(words)), kBf16, 127);
  const std::vector<uint32_t> positions = {0, 2, 4, 5};
  std::vector<uint8_t> classes(4);
  std::vector<uint32_t> ranks(4);
  Reference().rank(tiles.tiles, tiles.counts, positions, classes.data(), ranks.data());
  EXPECT_EQ(classes, (std::vector<uint8_t>{0, 0, 1, 15}));
  EXPECT_EQ(ranks, (std::vector<uint32_t>{0, 1, 2, 0}));
}

TEST(ClassRank, ATileWithoutCountsHasNoPartInTheRanks) {
  const std::vector<uint16_t> words(2 * kTileWords + 5, 0x3f80);
  Tiles tiles = Classify(Reference(), AsBytes(std::span(words)), kBf16, 127);
  tiles.counts[1] = {};
  const std::vector<uint32_t> positions = {3, 2 * kTileWords + 1};
  std::vector<uint8_t> classes(2);
  std::vector<uint32_t> ranks(2), selected(2);
  Reference().rank(tiles.tiles, tiles.counts, positions, classes.data(), ranks.data());
  EXPECT_EQ(ranks, (std::vector<uint32_t>{3, kTileWords + 1}));
  Reference().select(tiles.tiles, tiles.counts, {2}, ranks.data(), selected.data());
  EXPECT_EQ(selected, positions);
}

void ExpectSameTiles(const Tiles& expected, std::span<const ClassTile> tiles,
                     std::span<const TileCounts> counts) {
  for (size_t t = 0; t < expected.tiles.size(); ++t) {
    ASSERT_EQ(tiles[t].planes, expected.tiles[t].planes) << "tile " << t;
    ASSERT_TRUE(counts[t] == expected.counts[t]) << "tile " << t;
  }
}

TEST(ClassRank, EveryBodyClassifiesLikeTheReference) {
  constexpr WordLayout kLayouts[] = {{1, 3, 0x0f},  {1, 2, 0x1f}, {1, 0, 0xff},
                                     {1, 0, 0},     {2, 7, 0xff}, {2, 10, 0x1f},
                                     {4, 23, 0xff}, {4, 0, 0},    {8, 52, 0x7ff}};
  OnEveryTarget([&] {
    for (const ClassRankBody& body : ClassRankBodies()) {
      for (const WordLayout& layout : kLayouts) {
        for (const size_t n : {0, 1, 31, 64, 2047, 2048, 2049, 5000}) {
          SCOPED_TRACE(testing::Message()
                       << body.name << ", " << n << " words of " << layout.word_bytes);
          Rng rng(4, {.sample = static_cast<uint32_t>(n)});
          Bytes bytes(n * layout.word_bytes);
          for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
          const uint32_t top = layout.exponent_mask - layout.exponent_mask / 4;
          Fenced<uint8_t> words(bytes, n % 3);
          Fenced<TileCounts> counts(TilesOf(n));
          std::vector<ClassTile> tiles(TilesOf(n));
          Tiles expected(n);
          const uint32_t largest =
              Reference().classify(bytes, layout, top, expected.tiles, expected.counts);
          EXPECT_EQ(body.classify(words.span(), layout, top, tiles, counts.span()), largest);
          ExpectSameTiles(expected, tiles, counts.span());
          ASSERT_TRUE(counts.FenceIsIntact());
        }
      }
    }
  });
}

// Normal weights or awkward ones, and positions of one in `gap`.
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

void ExpectLikeTheReference(const ClassRankBody& body, const Case& made, bool with_idle_tiles) {
  const size_t m = made.positions.size();
  Fenced<float> theta(std::span<const float>(made.theta), 4);
  const uint32_t top = LargestExponent(Reference(), made.theta);
  Tiles tiles = Classify(body, AsBytes(std::span(made.theta)), kFloatLayout, top);
  if (with_idle_tiles) {
    std::vector<bool> touched(tiles.tiles.size());
    for (const uint32_t position : made.positions) touched[position / kTileWords] = true;
    for (size_t t = 0; t < touched.size(); ++t) {
      if (!touched[t]) tiles.counts[t] = {};
    }
  }
  std::vector<uint8_t> expected_classes(m);
  std::vector<uint32_t> expected_ranks(m);
  Reference().rank(tiles.tiles, tiles.counts, made.positions, expected_classes.data(),
                   expected_ranks.data());
  Fenced<uint8_t> classes(m);
  Fenced<uint32_t> ranks(m);
  body.rank(tiles.tiles, tiles.counts, made.positions, classes.data(), ranks.data());
  EXPECT_TRUE(std::equal(expected_classes.begin(), expected_classes.end(), classes.data()));
  EXPECT_TRUE(std::equal(expected_ranks.begin(), expected_ranks.end(), ranks.data()));

  ClassCounts entries = {};
  std::vector<size_t> order(m);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return expected_classes[i]; });
  std::vector<uint32_t> grouped, expected_positions;
  for (const size_t i : order) {
    ++entries[expected_classes[i]];
    grouped.push_back(expected_ranks[i]);
    expected_positions.push_back(made.positions[i]);
  }
  Fenced<uint32_t> grouped_ranks{std::span<const uint32_t>(grouped)};
  Fenced<uint32_t> positions(m);
  body.select(tiles.tiles, tiles.counts, entries, grouped_ranks.data(), positions.data());
  EXPECT_TRUE(std::ranges::equal(expected_positions, positions.span()));
  EXPECT_TRUE(classes.FenceIsIntact() && ranks.FenceIsIntact() && positions.FenceIsIntact());
}

TEST(ClassRank, EveryBodyAndTargetAgreesWithTheReferenceAndSelectsWhatItRanked) {
  OnEveryTarget([] {
    for (const ClassRankBody& body : ClassRankBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : {0, 1, 2, 63, 64, 65, 1000, 2048, 4099, 20001}) {
        for (const uint32_t gap : {1u, 2u, 20u, 500u, 5000u}) {
          const Case made = MakeCase(n, gap);
          ExpectLikeTheReference(body, made, false);
          ExpectLikeTheReference(body, made, true);
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
