#include "codec/rice_set.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"

namespace pulse {
namespace {

Bytes ExpectRoundTrip(uint32_t n, const std::vector<uint32_t>& members) {
  StreamsWriter writer;
  EncodeSet(n, members, writer);
  Bytes bytes;
  writer.Finish(bytes);
  auto reader = StreamsReader::Open(bytes);
  EXPECT_TRUE(reader.ok());
  std::vector<uint32_t> back(members.size());
  EXPECT_EQ(DecodeSet(n, *reader, back), OkStatus());
  EXPECT_EQ(reader->Finish(), OkStatus());
  EXPECT_EQ(back, members);
  return bytes;
}

TEST(RiceSet, RoundTripsEverySubsetOfTen) {
  for (uint32_t bits = 0; bits < 1024; ++bits) {
    std::vector<uint32_t> members;
    for (uint32_t i = 0; i < 10; ++i) {
      if (bits >> i & 1) members.push_back(i);
    }
    ExpectRoundTrip(10, members);
  }
}

TEST(RiceSet, RoundTripsTheLongestGap) {
  ExpectRoundTrip(1 << 20, {(1 << 20) - 1});
  ExpectRoundTrip(1 << 20, {0});
  ExpectRoundTrip(1, {0});
  ExpectRoundTrip(7, {});
}

TEST(RiceSet, StaysWithinFourPercentOfTheEntropyAtAnyDensity) {
  for (const double p : {0.001, 0.003, 0.01, 0.014, 0.03, 0.08, 0.2, 0.35, 0.5, 0.8, 0.99}) {
    const uint32_t n = 1 << 20;
    Rng rng(1, {});
    std::vector<uint32_t> members;
    for (uint32_t i = 0; i < n; ++i) {
      if (static_cast<double>(rng.Uniform()) < p) members.push_back(i);
    }
    const double q = static_cast<double>(members.size()) / n;
    const double bound = n * -(q * std::log2(q) + (1 - q) * std::log2(1 - q));
    EXPECT_LT(8.0 * static_cast<double>(ExpectRoundTrip(n, members).size()), 1.04 * bound + 32)
        << p;
  }
}

TEST(RiceSet, RefusesAMemberBeyondTheSet) {
  StreamsWriter writer;
  EncodeSet(300, std::vector<uint32_t>{299}, writer);
  Bytes bytes;
  writer.Finish(bytes);
  auto reader = StreamsReader::Open(bytes);
  std::vector<uint32_t> back(1);
  EXPECT_EQ(DecodeSet(299, *reader, back).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace pulse
