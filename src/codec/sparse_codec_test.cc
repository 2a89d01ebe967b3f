#include "codec/sparse_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "codec/handmade.h"
#include "core/rng.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlock = kSparseBlockElements;

// values[i] belongs to flat position positions[i].
SparseUpdate Make(uint64_t elements, const std::vector<uint64_t>& positions,
                  const std::vector<float>& values) {
  SparseUpdate update;
  update.elements = elements;
  update.values = values;
  for (const uint64_t position : positions) {
    update.positions.push_back(static_cast<uint32_t>(position % kBlock));
  }
  for (uint64_t b = 1; b <= SparseBlocksFor(elements); ++b) {
    const auto end = std::lower_bound(positions.begin(), positions.end(), b * kBlock);
    update.starts.push_back(static_cast<uint64_t>(end - positions.begin()));
  }
  return update;
}

// Equal as bits: NaNs equal themselves, and +0 differs from -0.
bool SameBits(const SparseUpdate& a, const SparseUpdate& b) {
  return a.elements == b.elements && a.starts == b.starts && a.positions == b.positions &&
         a.values.size() == b.values.size() &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), [](float x, float y) {
           return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
         });
}

Bytes ExpectRoundTrip(const SparseUpdate& update) {
  EXPECT_EQ(Validate(update), OkStatus());
  const Bytes bytes = EncodeSparseUpdate(update);
  const auto back = DecodeSparseUpdate(bytes, update.elements);
  EXPECT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back.ok() && SameBits(*back, update));
  return bytes;
}

SparseUpdate Random(uint64_t elements, uint32_t mean_gap) {
  Rng rng(11, {});
  std::vector<uint64_t> positions;
  std::vector<float> values;
  for (uint64_t at = rng.Below(mean_gap); at < elements; at += 1 + rng.Below(2 * mean_gap)) {
    positions.push_back(at);
    values.push_back(std::bit_cast<float>(rng.U32()));
  }
  return Make(elements, positions, values);
}

TEST(SparseCodec, RoundTripsAroundTheBlockSize) {
  for (const uint64_t elements :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 5}) {
    SCOPED_TRACE(elements);
    EXPECT_EQ(ExpectRoundTrip(Make(elements, {}, {})).size(), 24 + 8 * SparseBlocksFor(elements));
    if (elements == 0) continue;
    ExpectRoundTrip(Make(elements, {elements - 1}, {1}));
    ExpectRoundTrip(Random(elements, 10));
    ExpectRoundTrip(Random(elements, 100000));
  }
}

TEST(SparseCodec, RoundTripsWhenEveryElementIsSent) {
  ExpectRoundTrip(Random(kBlock + 100, 1));
  std::vector<uint64_t> all(kBlock);
  for (uint64_t i = 0; i < kBlock; ++i) all[i] = i;
  ExpectRoundTrip(Make(kBlock, all, std::vector<float>(kBlock, 0)));
}

TEST(SparseCodec, KeepsEveryBitOfTheValues) {
  const std::vector<uint32_t> bits = {0x00000000, 0x80000000, 0x7fc00001, 0xff800001, 0x7f800000,
                                      0x00000001, 0x807fffff, 0xffffffff, 0x3f800000};
  std::vector<float> values;
  for (const uint32_t b : bits) values.push_back(std::bit_cast<float>(b));
  ExpectRoundTrip(Make(100, {0, 1, 2, 3, 50, 51, 97, 98, 99}, values));
}

// The sections of docs/format.md.
TEST(SparseCodec, HasTheDocumentedSections) {
  const Bytes bytes = EncodeSparseUpdate(Make(300, {2, 3, 299}, {1.0f, -1.5f, 3e-6f}));
  EXPECT_EQ(handmade::Unpack(bytes), (std::vector<handmade::Block>{{3,
                                                                    {{2, 0, 255, 40},
                                                                     {0x00, 0x00, 0x9c},
                                                                     {0x00, 0x00, 0x53},
                                                                     {0x80, 0xc0, 0x49},
                                                                     {0x3f, 0xbf, 0x36}}}}));
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 28),
            (Bytes{'P', 'L', 'S', 1, 2, 4, 0, 0, 0x2c, 1, 0, 0, 0, 0,
                   0,   0,   1,   0, 0, 0, 0, 0, 0,    0, 3, 0, 0, 0}));
}

void ExpectToSurviveEveryDamage(const SparseUpdate& update) {
  const Bytes bytes = EncodeSparseUpdate(update);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + ptrdiff_t(size));
    EXPECT_EQ(DecodeSparseUpdate(cut, update.elements).status().code(),
              absl::StatusCode::kDataLoss);
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(DecodeSparseUpdate(longer, update.elements).ok());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ 1u << bit % 8);
    const auto decoded = DecodeSparseUpdate(flipped, update.elements);
    if (!decoded.ok()) {
      EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
      continue;
    }
    EXPECT_EQ(Validate(*decoded), OkStatus());
    // One update has one spelling before zstd.
    EXPECT_TRUE(handmade::Unpack(EncodeSparseUpdate(*decoded)) == handmade::Unpack(flipped));
  }
}

TEST(SparseCodec, SurvivesEveryTruncationAndBitFlip) {
  ExpectToSurviveEveryDamage(Make(300, {2, 3, 299}, {1.0f, -1.5f, 3e-6f}));
  ExpectToSurviveEveryDamage(Make(kBlock + 9, {7, kBlock - 1, kBlock + 8}, {1, 2, 3}));
  ExpectToSurviveEveryDamage(Random(1000, 5));
}

void ExpectRefused(const handmade::Block& block, std::string_view why) {
  const ContainerHeader header{
      .codec = CodecId::kSparseUpdateFast, .word_bytes = 4, .elements = 300};
  const auto decoded = DecodeSparseUpdate(handmade::Pack(header, {block}), 300);
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss) << why;
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(std::string(why)));
}

TEST(SparseCodec, RefusesSectionsThatNoEncoderWrites) {
  const Bytes two = {0, 0};
  ExpectRefused({2, {{0}}}, "a section of 1 bytes, expected 2 to 3");
  ExpectRefused({2, {{0, 0, 0, 0}}}, "a section of 4 bytes, expected 2 to 3");
  ExpectRefused({2, {{0, 255}}}, "the gaps hold 1 entries, expected 2");
  ExpectRefused({2, {{0, 0, 255}}}, "the gaps end inside a gap");
  ExpectRefused({2, {{0, 255, 44}}}, "position 300 in a block of 300");
  ExpectRefused({2, {two, two, two, two}}, "no zstd frame");
  ExpectRefused({2, {two, two, two, {0}, two}}, "a section of 1 bytes, expected 2 to 2");
  ExpectRefused({2, {two, two, two, two, {0, 0, 0}}}, "a section of 3 bytes, expected 2 to 2");
  ExpectRefused({2, {two, two, two, two, two, two}}, "11 bytes behind the last section");
}

TEST(SparseCodec, RefusesAnotherNumberOfElementsOrAnotherCodec) {
  const Bytes bytes = EncodeSparseUpdate(Make(300, {2}, {1}));
  EXPECT_EQ(DecodeSparseUpdate(bytes, 301).status().message(),
            "sparse update: 300 elements, expected 301");
  EXPECT_EQ(DecodeSparseUpdate(bytes, std::numeric_limits<uint64_t>::max()).status().code(),
            absl::StatusCode::kDataLoss);
  Bytes other = bytes;
  other[4] = 1;
  EXPECT_EQ(DecodeSparseUpdate(other, 300).status().message(),
            "sparse update: codec 1, expected 2");
  other = bytes;
  other[5] = 2;
  EXPECT_EQ(DecodeSparseUpdate(other, 300).status().message(),
            "sparse update: words of 2 bytes, expected 4");
}

}  // namespace
}  // namespace pulse
