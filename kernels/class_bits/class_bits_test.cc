#include "kernels/class_bits/class_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "kernels/class_rank/class_rank_math.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"

namespace pulse::kernels {
namespace {

const ClassBitsBody& Reference() {
  return ClassBitsBodies().front();
}

// A block of words of a few classes; of every class alike; or of the last one alone.
enum class Words { kFew, kEvery, kLast };
struct Block {
  Block(size_t n, Words words_of) : tiles(TilesOf(n)), counts(TilesOf(n)) {
    Rng rng(6, {.sample = static_cast<uint32_t>(n)});
    std::vector<uint32_t> words;
    for (size_t i = 0; i < n; ++i) {
      const auto below = static_cast<uint32_t>(std::countr_zero(rng.U32() | 0x80000000u));
      const uint32_t every = rng.Below(20);
      words.push_back((words_of == Words::kFew     ? below % 20
                       : words_of == Words::kEvery ? every
                                                   : 0)
                      << 23);
    }
    ClassRankBodies().front().classify(AsBytes(std::span<const uint32_t>(words)), kFloatLayout, 17,
                                       tiles, counts);
    sizes = SumOfCounts(counts);
  }

  std::vector<ClassTile> tiles;
  std::vector<TileCounts> counts;
  ClassCounts sizes;
};

// By class, its bits: fenced, and zeros.
struct Bits {
  explicit Bits(const ClassCounts& sizes_of_classes) : sizes(sizes_of_classes) {
    for (size_t c = 0; c < kRankClasses; ++c) {
      words.push_back(std::make_unique<Fenced<uint64_t>>(ClassBitsLength(sizes[c])));
      std::fill_n(words[c]->data(), ClassBitsLength(sizes[c]), 0);
      begins[c] = words[c]->data();
    }
  }

  // Up to and with the word that holds the last of each.
  std::vector<uint64_t> Used() const {
    std::vector<uint64_t> used;
    for (size_t c = 0; c < kRankClasses; ++c) {
      used.insert(used.end(), begins[c], begins[c] + (sizes[c] + 63) / 64);
    }
    return used;
  }
  bool FencesAreIntact() const {
    return std::ranges::all_of(words, [](const auto& w) { return w->FenceIsIntact(); });
  }

  ClassCounts sizes;
  std::vector<std::unique_ptr<Fenced<uint64_t>>> words;
  ClassBits begins;
};

std::vector<uint64_t> Chosen(size_t n, uint32_t gap) {
  Rng rng(7, {.sample = static_cast<uint32_t>(n)});
  std::vector<uint64_t> chosen(TilesOf(n) * kTileGroups);
  for (size_t i = 0; i < n; ++i) {
    if (rng.Below(gap) == 0) chosen[i / 64] |= uint64_t{1} << i % 64;
  }
  return chosen;
}

TEST(ClassBits, AWordsBitStandsAtItsRankAmongItsClass) {
  const std::vector<float> words = {1, 0.5f, 1, 0.5f, 0.5f, 0};
  std::vector<ClassTile> tiles(1);
  std::vector<TileCounts> counts(1);
  ClassRankBodies().front().classify(AsBytes(std::span(words)), kFloatLayout, 127, tiles, counts);
  std::vector<uint64_t> chosen(kTileGroups);
  chosen[0] = 0b110101;
  const Bits bits(SumOfCounts(counts));
  Reference().split(tiles, counts, chosen.data(), bits.begins);
  EXPECT_EQ(bits.begins[0][0], 0b11u);
  EXPECT_EQ(bits.begins[1][0], 0b100u);
  EXPECT_EQ(bits.begins[15][0], 0b1u);
  std::vector<uint64_t> joined(kTileGroups, 99);
  Reference().join(tiles, counts, bits.begins, joined.data());
  EXPECT_EQ(joined, chosen);
}

TEST(ClassBits, EveryBodyAndTargetAgreesWithTheReferenceAndJoinsWhatItSplit) {
  OnEveryTarget([] {
    for (const ClassBitsBody& body : ClassBitsBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : {0, 1, 63, 64, 65, 2047, 2048, 2049, 20001}) {
        for (const uint32_t gap : {1u, 2u, 20u, 10u, 500u, 5000u}) {
          const Block block(n, gap == 2 ? Words::kEvery : gap == 10 ? Words::kLast : Words::kFew);
          const std::vector<uint64_t> chosen = Chosen(n, gap);
          const Bits expected(block.sizes), split(block.sizes), to_join(block.sizes);
          Reference().split(block.tiles, block.counts, chosen.data(), expected.begins);
          body.split(block.tiles, block.counts, chosen.data(), split.begins);
          ASSERT_EQ(split.Used(), expected.Used()) << n << " words, one in " << gap;
          for (size_t c = 0; c < kRankClasses; ++c) {
            std::copy_n(split.begins[c], (block.sizes[c] + 63) / 64, to_join.begins[c]);
          }
          Fenced<uint64_t> joined(chosen.size());
          body.join(block.tiles, block.counts, to_join.begins, joined.data());
          ASSERT_TRUE(std::ranges::equal(joined.span(), chosen)) << n << " words, one in " << gap;
          ASSERT_TRUE(split.FencesAreIntact() && to_join.FencesAreIntact() &&
                      joined.FenceIsIntact());
          std::vector<uint32_t> ones(n + kListSlack), listed(n + kListSlack);
          const size_t count = Reference().list(chosen, ones.data());
          ASSERT_EQ(body.list(chosen, listed.data()), count);
          ASSERT_TRUE(std::equal(ones.begin(), ones.begin() + ptrdiff_t(count), listed.begin()));
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
