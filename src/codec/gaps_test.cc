#include "codec/gaps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "codec/container.h"
#include "core/rng.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

Bytes Encode(const std::vector<uint32_t>& positions) {
  Bytes gaps;
  EncodeGaps(positions, gaps);
  return gaps;
}

void ExpectRoundTrip(const std::vector<uint32_t>& positions, uint64_t elements) {
  const Bytes gaps = Encode(positions);
  EXPECT_LE(gaps.size(), MaxGapBytes(positions.size(), elements));
  std::vector<uint32_t> back(positions.size());
  ASSERT_TRUE(DecodeGaps(gaps, elements, back).ok());
  EXPECT_EQ(back, positions);
}

void ExpectRefused(const Bytes& gaps, uint64_t elements, size_t entries, std::string_view why) {
  std::vector<uint32_t> positions(entries);
  const Status status = DecodeGaps(gaps, elements, positions);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(why)));
}

TEST(Gaps, SkipBy255AndEndBelow) {
  EXPECT_EQ(Encode({0, 1, 5, 298}), (Bytes{0, 0, 3, 255, 37}));
  EXPECT_EQ(Encode({254}), (Bytes{254}));
  EXPECT_EQ(Encode({255}), (Bytes{255, 0}));
  EXPECT_EQ(Encode({256, 257 + 510}), (Bytes{255, 1, 255, 255, 0}));
}

TEST(Gaps, RoundTripAtTheEdges) {
  const uint64_t n = kContainerBlockElements;
  const uint32_t last = static_cast<uint32_t>(n) - 1;
  ExpectRoundTrip({}, n);
  ExpectRoundTrip({0}, 1);
  ExpectRoundTrip({last}, n);
  ExpectRoundTrip({0, last}, n);
  ExpectRoundTrip({last - 1, last}, n);
  std::vector<uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  ExpectRoundTrip(all, n);
}

TEST(Gaps, TheBoundIsReached) {
  // One entry at the very end: every element before it is skipped.
  EXPECT_EQ(Encode({1019}).size(), MaxGapBytes(1, 1020));
  EXPECT_EQ(Encode({1020}).size(), MaxGapBytes(1, 1021));
}

TEST(Gaps, RoundTripRandomSetsOfAnyDensity) {
  Rng rng(1, {});
  for (const uint32_t mean : {1u, 2u, 10u, 100u, 254u, 255u, 256u, 5000u, 300000u}) {
    std::vector<uint32_t> positions;
    for (uint64_t at = rng.Below(mean); at < kContainerBlockElements;
         at += 1 + rng.Below(2 * mean)) {
      positions.push_back(static_cast<uint32_t>(at));
    }
    ExpectRoundTrip(positions, kContainerBlockElements);
  }
}

TEST(Gaps, RefuseWhatNoEncoderWrites) {
  ExpectRefused({0, 0}, 9, 1, "hold 2 entries, expected 1");
  ExpectRefused({0}, 9, 2, "hold 1 entries, expected 2");
  ExpectRefused({255, 255}, 9, 1, "hold 0 entries, expected 1");
  ExpectRefused({1, 255}, 9, 1, "end inside a gap");
  ExpectRefused({9}, 9, 1, "position 9 in a block of 9");
  ExpectRefused({0, 8}, 9, 2, "position 9 in a block of 9");
  ExpectRefused({255, 0}, 255, 1, "position 255 in a block of 255");
}

TEST(Gaps, TheLargestSumDoesNotWrapAround) {
  // As many skips as a section may have, in the smallest block that may have them.
  Bytes gaps(MaxGapBytes(1, kContainerBlockElements), 255);
  gaps.back() = 254;
  ExpectRefused(gaps, kContainerBlockElements, 1, "in a block of 1048576");
  // All entries of a full block, each with the largest gap.
  ExpectRefused(Bytes(kContainerBlockElements, 254), kContainerBlockElements,
                kContainerBlockElements, "position 267386879 in a block of 1048576");
}

}  // namespace
}  // namespace pulse
