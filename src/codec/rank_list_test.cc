#include "codec/rank_list.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "core/rng.h"

namespace pulse {
namespace {

std::vector<uint32_t> Random(uint32_t bound, double density) {
  Rng rng(5, {});
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < bound; ++i) {
    if (rng.Below(1'000'000) < density * 1e6) ranks.push_back(i);
  }
  return ranks;
}

// The bits that it took.
size_t ExpectRoundTrip(const std::vector<uint32_t>& ranks, uint32_t bound) {
  Bytes bytes;
  BitWriter writer(bytes);
  writer.Reserve(MaxRankBits(ranks.size(), bound));
  WriteRanks(ranks, bound, writer);
  writer.Finish();
  EXPECT_LE(8 * bytes.size(), MaxRankBits(ranks.size(), bound) + 7);
  BitReader reader;
  reader.Start(bytes);
  std::vector<uint32_t> back(ranks.size());
  const Status read = ReadRanks(reader, bound, back);
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(back, ranks);
  EXPECT_TRUE(reader.IsAtEnd());
  std::vector<uint64_t> bits(bound / 64 + 1), expected(bits.size());
  for (const uint32_t rank : ranks) expected[rank / 64] |= uint64_t{1} << rank % 64;
  reader.Start(bytes);
  EXPECT_EQ(ReadRankBits(reader, bound, static_cast<uint32_t>(ranks.size()), bits.data()),
            OkStatus());
  EXPECT_EQ(bits, expected);
  EXPECT_TRUE(reader.IsAtEnd());
  return 8 * bytes.size();
}

TEST(RankList, RoundTripsAtEveryDensity) {
  for (const uint32_t bound : {1u, 2u, 3u, 100u, 4097u, kMaxRankBound}) {
    for (const double density : {0.0, 1e-5, 0.01, 0.3, 0.49, 0.51, 0.9, 0.9999, 1.0}) {
      SCOPED_TRACE(testing::Message() << bound << " " << density);
      ExpectRoundTrip(Random(bound, density), bound);
    }
  }
  ExpectRoundTrip({0}, 1);
  ExpectRoundTrip({kMaxRankBound - 1}, kMaxRankBound);
}

TEST(RankList, StaysNearTheEntropyOfRandomRanks) {
  constexpr uint32_t kBound = 1 << 18;
  for (const double p : {0.001, 0.01, 0.05, 0.2, 0.35, 0.5, 0.7, 0.99}) {
    const double entropy = -p * std::log2(p) - (1 - p) * std::log2(1 - p);
    EXPECT_LE(static_cast<double>(ExpectRoundTrip(Random(kBound, p), kBound)),
              1.05 * entropy * kBound + 64)
        << p;
  }
}

TEST(RankList, PaysLittleForALongStretchWithoutEntries) {
  std::vector<uint32_t> ranks(10'000);
  std::iota(ranks.begin(), ranks.end(), kMaxRankBound - 10'000);
  EXPECT_LT(ExpectRoundTrip(ranks, kMaxRankBound), 10'000u * 8 + 64);
}

TEST(RankList, RefusesRanksOutOfRange) {
  Bytes bytes;
  BitWriter writer(bytes);
  writer.Reserve(100);
  WriteRanks(std::vector<uint32_t>{7}, 8, writer);
  writer.Finish();
  BitReader reader;
  std::vector<uint32_t> ranks(1);
  reader.Start(bytes);
  EXPECT_EQ(ReadRanks(reader, 7, ranks).code(), absl::StatusCode::kDataLoss);
  std::vector<uint64_t> bits(1);
  reader.Start(bytes);
  EXPECT_EQ(ReadRankBits(reader, 7, 1, bits.data()).code(), absl::StatusCode::kDataLoss);
  // Two are missing of eight. The first at the end leaves no room for the second, and there are
  // only six to fill in before it.
  ranks.resize(6);
  reader.Start(Bytes{0b00111000});
  EXPECT_EQ(ReadRanks(reader, 8, ranks).code(), absl::StatusCode::kDataLoss);
  reader.Start(Bytes{0b00111000});
  EXPECT_EQ(ReadRankBits(reader, 8, 6, bits.data()).code(), absl::StatusCode::kDataLoss);
  ranks.resize(3);  // one is missing of four
  reader.Start(Bytes{0, 0, 0, 0xFF});
  EXPECT_EQ(ReadRanks(reader, 4, ranks).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace pulse
