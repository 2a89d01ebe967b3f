#include "kernels/apply/apply.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

template <typename Word>
std::vector<Word> Applied(std::vector<Word> words, std::vector<uint32_t> positions,
                          std::vector<Word> steps) {
  const ByteSpan bytes(reinterpret_cast<uint8_t*>(words.data()), words.size() * sizeof(Word));
  ApplyBodies().front().run(bytes, sizeof(Word), positions, AsBytes(std::span<const Word>(steps)));
  return words;
}

TEST(Apply, MovesTheWordsAtThePositionsAndNoOther) {
  EXPECT_EQ(Applied<uint16_t>({10, 20, 30, 40}, {1, 3}, {1, 0xFFFF}),
            (std::vector<uint16_t>{10, 21, 30, 39}));
}

TEST(Apply, WrapsAtTheWidthOfTheWord) {
  EXPECT_EQ(Applied<uint8_t>({255, 7}, {0}, {2}), (std::vector<uint8_t>{1, 7}));
  EXPECT_EQ(Applied<uint16_t>({0, 7}, {0}, {0xFFFF}), (std::vector<uint16_t>{0xFFFF, 7}));
  EXPECT_EQ(Applied<uint32_t>({0x80000000, 7}, {0}, {0x80000000}), (std::vector<uint32_t>{0, 7}));
  EXPECT_EQ(Applied<uint64_t>({1, 7}, {0}, {~uint64_t{0}}), (std::vector<uint64_t>{0, 7}));
}

// At any alignment, in front of and behind bytes that must not change.
TEST(Apply, EveryBodyTurnsBeforeIntoAfter) {
  OnEveryTarget([] {
    for (const ApplyBody& body : ApplyBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t word_bytes : {1, 2, 4, 8}) {
        for (const size_t n : kAwkwardSizes) {
          Rng rng(2, {.sample = static_cast<uint32_t>(n)});
          Bytes before(n * word_bytes), after, steps;
          for (uint8_t& byte : before) byte = static_cast<uint8_t>(rng.U32());
          after = before;
          std::vector<uint32_t> positions;
          for (uint32_t i = 0; i < n; i += 1 + rng.Below(4)) {
            positions.push_back(i);
            uint64_t word = 0;
            std::memcpy(&word, before.data() + i * word_bytes, word_bytes);
            const uint64_t step = uint64_t{rng.U32()} << 32 | rng.U32();
            word += step;
            std::memcpy(after.data() + i * word_bytes, &word, word_bytes);
            steps.insert(steps.end(), reinterpret_cast<const uint8_t*>(&step),
                         reinterpret_cast<const uint8_t*>(&step) + word_bytes);
          }
          Fenced<uint8_t> words(before, 1), fenced_steps(steps, 3);
          body.run(words.span(), word_bytes, positions, fenced_steps.span());
          ASSERT_EQ(Copy(words.span()), after) << word_bytes << " bytes, " << n << " words";
          ASSERT_TRUE(words.FenceIsIntact());
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
