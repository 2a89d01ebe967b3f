#include "kernels/diff/diff.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

template <typename Word>
std::vector<uint32_t> Differing(const std::vector<Word>& before, const std::vector<Word>& after) {
  std::vector<uint32_t> positions(before.size());
  positions.resize(DiffBodies().front().run(AsBytes(std::span(before)), AsBytes(std::span(after)),
                                            sizeof(Word), positions.data()));
  return positions;
}

using Positions = std::vector<uint32_t>;

TEST(Diff, GivesThePositionsOfTheWordsThatDiffer) {
  EXPECT_EQ(Differing<uint16_t>({1, 2, 3, 4}, {1, 0x0102, 3, 5}), (Positions{1, 3}));
  EXPECT_EQ(Differing<uint16_t>({1, 2}, {1, 2}), Positions{});
  EXPECT_EQ(Differing<uint16_t>({}, {}), Positions{});
}

TEST(Diff, SeesEveryBitOfAWord) {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t word = uint64_t{1} << bit;
    EXPECT_EQ(Differing<uint64_t>({0, word}, {0, 0}), (Positions{1})) << bit;
    if (bit < 32) {
      EXPECT_EQ(Differing<uint32_t>({0, static_cast<uint32_t>(word)}, {0, 0}), (Positions{1}))
          << bit;
    }
    if (bit < 8) {
      EXPECT_EQ(Differing<uint8_t>({0, static_cast<uint8_t>(word)}, {0, 0}), (Positions{1})) << bit;
    }
  }
}

TEST(Diff, ComparesBitsAndNotValues) {
  const float nan = FromBits(0x7FC00001);
  EXPECT_EQ(Differing<float>({0.0f, nan, nan}, {-0.0f, nan, FromBits(0x7FC00002)}),
            (Positions{0, 2}));
}

// The bytes of two arrays of which about one word in `one_in` differs.
struct Pair {
  Bytes before, after;
};
Pair RandomPair(size_t words, size_t word_bytes, uint32_t one_in) {
  Rng rng(3, {.sample = static_cast<uint32_t>(words * 8 + word_bytes)});
  Pair pair;
  pair.before.resize(words * word_bytes);
  for (uint8_t& byte : pair.before) byte = static_cast<uint8_t>(rng.U32());
  pair.after = pair.before;
  for (size_t i = 0; one_in != 0 && i < words; ++i) {
    const size_t byte = i * word_bytes + rng.Below(static_cast<uint32_t>(word_bytes));
    if (rng.Below(one_in) == 0) pair.after[byte] ^= static_cast<uint8_t>(1 + rng.Below(255));
  }
  return pair;
}

// Random data at many densities; the two arrays lie at different odd addresses.
TEST(Diff, EveryBodyGivesThePositionsOfTheReference) {
  OnEveryTarget([] {
    for (const DiffBody& body : DiffBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t word_bytes : {1, 2, 4, 8}) {
        for (const size_t n : kAwkwardSizes) {
          for (const uint32_t one_in : {0, 1, 2, 20, 500}) {
            const Pair pair = RandomPair(n, word_bytes, one_in);
            Fenced<uint8_t> before(pair.before, 1), after(pair.after, 3);
            Fenced<uint32_t> positions(n);
            std::vector<uint32_t> expected(n);
            expected.resize(
                DiffBodies().front().run(pair.before, pair.after, word_bytes, expected.data()));
            const size_t count =
                body.run(before.span(), after.span(), word_bytes, positions.data());
            ASSERT_EQ(Copy(positions.span().first(count)), expected)
                << word_bytes << " bytes, " << n << " words, one in " << one_in;
            ASSERT_TRUE(positions.FenceIsIntact());
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
