#include "codec/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace pulse {
namespace {

using ::testing::HasSubstr;

template <typename Word>
CodedSteps Encode(const std::vector<Word>& before, const std::vector<Word>& after) {
  std::vector<uint32_t> positions(before.size());
  std::iota(positions.begin(), positions.end(), 0);
  CodedSteps coded;
  EncodeSteps(AsBytes(std::span(before)), AsBytes(std::span(after)), sizeof(Word), positions,
              coded);
  return coded;
}

template <typename Word>
void ExpectRoundTrip(const std::vector<Word>& before, const std::vector<Word>& after) {
  const CodedSteps coded = Encode(before, after);
  EXPECT_EQ(coded.codes.size(), CodeBytes(before.size()));
  ASSERT_EQ(CountEscapes(coded.codes, before.size()).value() * sizeof(Word), coded.escapes.size());
  Bytes steps(before.size() * sizeof(Word));
  ASSERT_TRUE(DecodeSteps(coded.codes, coded.escapes, sizeof(Word), steps).ok());
  for (size_t i = 0; i < before.size(); ++i) {
    const Word step = LoadLittle<Word>(&steps[i * sizeof(Word)]);
    ASSERT_EQ(static_cast<Word>(before[i] + step), after[i]) << i;
  }
}

template <typename Word>
void ExpectLargestEscape(Word largest) {
  const Bytes code = {3};
  Bytes escape(sizeof(Word)), step(sizeof(Word));
  std::memcpy(escape.data(), &largest, sizeof(Word));
  EXPECT_TRUE(DecodeSteps(code, escape, sizeof(Word), step).ok());
  // The most negative step has the largest rank.
  EXPECT_EQ(LoadLittle<Word>(step.data()), static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1)));
  ++largest;
  std::memcpy(escape.data(), &largest, sizeof(Word));
  const Status status = DecodeSteps(code, escape, sizeof(Word), step);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("out of range"));
}

TEST(Steps, HaveTheDocumentedCodes) {
  // +1, -1, -2, +5, then +1 and +2.
  const CodedSteps coded = Encode<uint16_t>({10, 10, 10, 10, 10, 0xffff}, {11, 9, 8, 15, 11, 1});
  EXPECT_EQ(coded.codes, (Bytes{0b11'10'00'01, 0b11'01}));
  EXPECT_EQ(coded.escapes, (Bytes{6, 0, 0, 0}));
}

TEST(Steps, OfEightBitWordsRoundTripExhaustively) {
  std::vector<uint8_t> before, after;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      if (a == b) continue;
      before.push_back(static_cast<uint8_t>(a));
      after.push_back(static_cast<uint8_t>(b));
    }
  }
  ExpectRoundTrip(before, after);
}

TEST(Steps, OfSixteenBitWordsRoundTripExhaustively) {
  std::vector<uint16_t> after(65535);
  std::iota(after.begin(), after.end(), uint16_t{1});
  ExpectRoundTrip(std::vector<uint16_t>(65535, 0), after);
}

TEST(Steps, OfWideWordsRoundTripAtTheEdges) {
  const uint32_t top = 0x80000000, all = 0xffffffff;
  ExpectRoundTrip<uint32_t>({0, all, 0, top, top - 1, all, 0}, {all, 0, top, 0, top, top, 3});
  const uint64_t top8 = uint64_t{1} << 63, all8 = ~uint64_t{0};
  ExpectRoundTrip<uint64_t>({0, all8, 0, top8, top8 - 1, all8, 0},
                            {all8, 0, top8, 0, top8, top8, uint64_t{1} << 40});
}

TEST(Steps, AnEscapeForTheStepZeroOrBeyondIsRefused) {
  ExpectLargestEscape<uint8_t>(0xff - 4);
  ExpectLargestEscape<uint16_t>(0xffff - 4);
  ExpectLargestEscape<uint32_t>(0xffffffff - 4);
  ExpectLargestEscape<uint64_t>(~uint64_t{0} - 4);
}

TEST(Steps, UnusedCodeBitsMustBeZero) {
  EXPECT_EQ(CountEscapes(Bytes{0b00'11'00'11}, 3).value(), 2u);
  EXPECT_EQ(CountEscapes(Bytes{0b11'11'11'11, 0b10'01'10'01}, 8).value(), 4u);
  EXPECT_EQ(CountEscapes(Bytes{0b01'00'00'00}, 3).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CountEscapes(Bytes{0b00'00'10'00}, 1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CountEscapes(Bytes{0, 0b00'00'01'00}, 5).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace pulse
