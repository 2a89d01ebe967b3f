#include "codec/prefix_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/rng.h"

namespace pulse {
namespace {

PrefixCounts Counts(std::initializer_list<std::pair<size_t, uint32_t>> some) {
  PrefixCounts counts = {};
  for (const auto& [symbol, count] : some) counts[symbol] = count;
  return counts;
}

TEST(PrefixCode, GivesFrequentSymbolsShortCodes) {
  const PrefixLengths lengths = LengthsFor(Counts({{3, 1}, {9, 1}, {500, 2}, {1023, 4}}));
  EXPECT_EQ(lengths[1023], 1);
  EXPECT_EQ(lengths[500], 2);
  EXPECT_EQ(lengths[3], 3);
  EXPECT_EQ(lengths[9], 3);
  EXPECT_EQ(lengths[4], 0);
}

TEST(PrefixCode, NeverExceedsTheLongestCode) {
  PrefixCounts counts = {};
  uint32_t a = 1, b = 1;
  for (size_t s = 0; s < 30; ++s) {  // Fibonacci's numbers make the deepest tree
    counts[s] = a;
    a = std::exchange(b, a + b);
  }
  const PrefixLengths lengths = LengthsFor(counts);
  EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()), kMaxPrefixBits);
  counts.fill(1);
  EXPECT_EQ(LengthsFor(counts)[77], 10);
}

void ExpectRoundTrip(const PrefixCounts& counts) {
  const PrefixLengths lengths = LengthsFor(counts);
  const PrefixEncoder encoder(lengths);
  Bytes bytes;
  BitWriter writer(bytes);
  writer.Reserve(kMaxLengthsBits + kPrefixSymbols * kMaxPrefixBits);
  WriteLengths(lengths, writer);
  for (size_t s = 0; s < kPrefixSymbols; ++s) {
    if (counts[s] > 0) writer.Write(encoder.codes[s].bits, encoder.codes[s].length);
  }
  writer.Finish();
  BitReader reader;
  reader.Start(bytes);
  PrefixLengths back;
  ASSERT_EQ(ReadLengths(reader, back), OkStatus());
  ASSERT_EQ(back, lengths);
  const auto decoder = std::make_unique<PrefixDecoder>();
  decoder->Build(back);
  for (size_t s = 0; s < kPrefixSymbols; ++s) {
    if (counts[s] == 0) continue;
    unsigned length = 0;
    EXPECT_EQ(decoder->Decode(reader.Peek(), &length), s);
    reader.Skip(length);
  }
  EXPECT_TRUE(reader.IsAtEnd());
}

TEST(PrefixCode, RoundTripsLengthsAndSymbols) {
  ExpectRoundTrip(Counts({{0, 5}}));
  ExpectRoundTrip(Counts({{1023, 1}}));
  ExpectRoundTrip(Counts({{0, 1}, {1023, 1}}));
  ExpectRoundTrip(Counts({{0, 9}, {2, 3}, {4, 1}, {6, 1}}));
  PrefixCounts counts;
  counts.fill(1);
  ExpectRoundTrip(counts);
  Rng rng(6, {});
  for (uint32_t& count : counts) count = rng.Below(3) == 0 ? 1 + rng.Below(1u << rng.Below(20)) : 0;
  ExpectRoundTrip(counts);
}

TEST(PrefixCode, TakesNoBitsForASymbolThatIsAlone) {
  EXPECT_EQ(PrefixEncoder(LengthsFor(Counts({{7, 100}}))).codes[7].length, 0);
}

Status ReadNibbles(const std::vector<std::pair<uint64_t, unsigned>>& writes) {
  Bytes bytes;
  BitWriter writer(bytes);
  writer.Reserve(1000);
  for (const auto& [value, bits] : writes) writer.Write(value, bits);
  writer.Finish();
  BitReader reader;
  reader.Start(bytes);
  PrefixLengths lengths;
  return ReadLengths(reader, lengths);
}

TEST(PrefixCode, RefusesLengthsThatMakeNoCode) {
  const std::pair<uint64_t, unsigned> zero{0, 4}, one{1, 4}, two{2, 4};
  const std::pair<uint64_t, unsigned> rest_of_1023{((1023u - 512) << 1 | 1) << 9, 19};
  const std::pair<uint64_t, unsigned> rest_of_1022{((1022u - 512) << 1 | 1) << 9, 19};
  EXPECT_EQ(ReadNibbles({one, zero, rest_of_1023}), OkStatus());
  EXPECT_EQ(ReadNibbles({one, one, zero, rest_of_1022}), OkStatus());
  const auto refused = [](const Status& status) {
    return status.code() == absl::StatusCode::kDataLoss;
  };
  EXPECT_TRUE(refused(ReadNibbles({two, zero, rest_of_1023})));       // alone, but not of length 1
  EXPECT_TRUE(refused(ReadNibbles({one, two, zero, rest_of_1022})));  // incomplete
  EXPECT_TRUE(refused(ReadNibbles({one, one, one, zero, rest_of_1022})));  // too many, too far
  EXPECT_TRUE(refused(ReadNibbles({{12, 4}, zero, rest_of_1023})));        // too long
  EXPECT_TRUE(refused(ReadNibbles({zero, {1, 1}, zero, rest_of_1023})));   // two runs of zeros
  EXPECT_TRUE(refused(ReadNibbles({})));
}

}  // namespace
}  // namespace pulse
