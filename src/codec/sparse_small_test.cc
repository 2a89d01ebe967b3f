#include "codec/sparse_small.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "codec/container.h"
#include "codec/sparse_codec.h"
#include "core/digest.h"
#include "core/rng.h"
#include "kernels/sparse_small/grid_value.h"
#include "kernels/testing/every_target.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlock = kSparseBlockElements;

const kernels::KernelTable& Kernels() {
  static const auto table = *kernels::ChooseKernels("auto");
  return table;
}

struct Case {
  std::vector<float> theta;
  SparseUpdate update;
};

void Push(SparseUpdate& update, uint64_t position, float value) {
  while (update.starts.size() <= position / kBlock) update.starts.push_back(update.entries());
  update.positions.push_back(static_cast<uint32_t>(position % kBlock));
  update.values.push_back(value);
}

void Close(SparseUpdate& update, uint64_t elements) {
  update.elements = elements;
  while (update.starts.size() <= SparseBlocksFor(elements)) {
    update.starts.push_back(update.entries());
  }
}

// Weights over eight binades, an entry in about `gap`. Values are small multiples of theta's
// spacing, as training makes them, but for one in 50, which is any word. Integers only, so that the
// same bits come out everywhere.
Case Trained(uint64_t elements, uint32_t gap, uint64_t seed = 1) {
  Rng rng(seed, {});
  Case made;
  for (uint64_t i = 0; i < elements; ++i) {
    const uint32_t exponent = 121 - static_cast<uint32_t>(std::countr_zero(rng.U32() | 0x80u));
    const uint32_t theta = rng.U32() << 31 | exponent << 23 | rng.Below(1u << 23);
    made.theta.push_back(std::bit_cast<float>(theta));
    if (rng.Below(gap) != 0) continue;
    const float spacing = std::bit_cast<float>((exponent - 23) << 23);
    const auto multiple = static_cast<float>(rng.Below(1u << 14)) - 0x1p13f;
    Push(made.update, i, rng.Below(50) == 0 ? std::bit_cast<float>(rng.U32()) : multiple * spacing);
  }
  Close(made.update, elements);
  return made;
}

bool SameBits(const SparseUpdate& a, const SparseUpdate& b) {
  return a.elements == b.elements && a.starts == b.starts && a.positions == b.positions &&
         a.values.size() == b.values.size() &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), [](float x, float y) {
           return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
         });
}

Bytes ExpectRoundTrip(const Case& c) {
  EXPECT_EQ(Validate(c.update), OkStatus());
  const Bytes bytes = EncodeSparseUpdateSmall(Kernels(), c.update, c.theta);
  const auto back = DecodeSparseUpdateSmall(Kernels(), bytes, c.theta);
  EXPECT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back.ok() && SameBits(*back, c.update));
  return bytes;
}

TEST(SparseSmall, RoundTripsAroundTheBlockSize) {
  for (const uint64_t elements :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, kBlock - 1, kBlock, kBlock + 1}) {
    SCOPED_TRACE(elements);
    for (const uint32_t gap : {1u, 20u, 1'000'000u}) ExpectRoundTrip(Trained(elements, gap));
  }
}

TEST(SparseSmall, KeepsEveryBitOfTheValuesWhateverTheta) {
  const std::vector<uint32_t> awkward = {0x00000000, 0x80000000, 0x7fc00001, 0xff800001,
                                         0x7f800000, 0x00000001, 0x807fffff, 0xffffffff,
                                         0x3f800000, 0x00800000, 0x3f808000, 0x3f808001,
                                         0x34000001, 0x33ffffff, 0x00400000};
  Case c;
  for (const uint32_t theta : awkward) {
    for (const uint32_t value : awkward) {
      Push(c.update, c.theta.size(), std::bit_cast<float>(value));
      c.theta.push_back(std::bit_cast<float>(theta));
    }
  }
  Close(c.update, c.theta.size());
  ExpectRoundTrip(c);
}

TEST(SparseSmall, RoundTripsAnyBits) {
  Rng rng(2, {});
  Case c;
  for (uint64_t i = 0; i < 20'000; ++i) {
    c.theta.push_back(std::bit_cast<float>(rng.U32()));
    if (rng.Below(3) != 0) Push(c.update, i, std::bit_cast<float>(rng.U32()));
  }
  Close(c.update, c.theta.size());
  ExpectRoundTrip(c);
}

TEST(SparseSmall, HoldsAnUpdateOfZerosInTwoHundredBytes) {
  Case c;
  c.theta.assign(kBlock, 0.5f);
  for (uint64_t i = 0; i < kBlock; ++i) Push(c.update, i, 0.0f);
  Close(c.update, kBlock);
  EXPECT_LT(ExpectRoundTrip(c).size(), 200u);
}

// Rounded values take fewer bits when the codec is told, and stay exact when it is told wrong.
TEST(SparseSmall, WritesOnlyTheBitsOfACoarserGrid) {
  Case c = Trained(100'000, 10);
  for (size_t i = 0; i < c.update.values.size(); ++i) {
    const uint32_t theta = std::bit_cast<uint32_t>(c.theta[c.update.positions[i]]);
    const float unit = std::bit_cast<float>(((theta >> 23 & 0xFF) - 11) << 23);
    c.update.values[i] = unit * static_cast<float>(static_cast<int>(i % 31) - 15);
  }
  const Bytes exact = ExpectRoundTrip(c);
  const Bytes coarse = EncodeSparseUpdateSmall(Kernels(), c.update, c.theta, CoarserBits(4));
  EXPECT_LT(coarse.size() + 10'000, exact.size());
  for (const unsigned coarser : {CoarserBits(4), CoarserBits(2), 16u}) {
    const Bytes bytes = EncodeSparseUpdateSmall(Kernels(), c.update, c.theta, coarser);
    const auto back = DecodeSparseUpdateSmall(Kernels(), bytes, c.theta, coarser);
    EXPECT_TRUE(back.ok() && SameBits(*back, c.update));
  }
}

TEST(GridValue, TakesEveryValueApartAndPutsItTogether) {
  Rng rng(3, {});
  for (int i = 0; i < 100'000; ++i) {
    const uint32_t theta = rng.U32(), value = rng.U32();
    const uint32_t symbol = SymbolOf(theta, value);
    ASSERT_LT(symbol, 1024u);
    ASSERT_EQ(ExponentOfSymbol(symbol), value >> 23 & 0xFF);
    ASSERT_EQ(ValueOfSymbol(theta, symbol) | LowBits(value, kPlainMantissaBits), value);
  }
}

TEST(GridValue, KnowsTheMultiplesOfThetasSpacing) {
  const uint32_t one = std::bit_cast<uint32_t>(1.0f);
  EXPECT_FALSE(IsOffGrid(one, std::bit_cast<uint32_t>(0x1p-23f * 77), 0));
  EXPECT_TRUE(IsOffGrid(one, std::bit_cast<uint32_t>(0x1p-24f * 77), 0));
  EXPECT_FALSE(IsOffGrid(one, std::bit_cast<uint32_t>(-3.0f), 0));
  EXPECT_FALSE(IsOffGrid(one, 0, 0));
  EXPECT_TRUE(IsOffGrid(one, 1, 0));
  const uint32_t quarter_of_a_bf16_step = std::bit_cast<uint32_t>(0x1p-9f * 5);
  EXPECT_FALSE(IsOffGrid(one, quarter_of_a_bf16_step, CoarserBits(2)));
  EXPECT_TRUE(IsOffGrid(one, quarter_of_a_bf16_step, CoarserBits(1)));
}

// A symbol's lowest bit is 0 for the sign that leads to the nearer edge of theta's BF16 cell.
TEST(GridValue, KnowsTheNearerEdge) {
  const auto away = [](float theta, float value) {
    return SymbolOf(std::bit_cast<uint32_t>(theta), std::bit_cast<uint32_t>(value)) & 1;
  };
  const float low = 1 - 0x1p-9f + 0x1p-23f, high = 1 + 0x1p-8f - 0x1p-20f;
  EXPECT_EQ(away(low, 0x1p-10f), 0u);  // theta - value goes down
  EXPECT_EQ(away(low, -0x1p-10f), 1u);
  EXPECT_EQ(away(high, 0x1p-10f), 1u);
  EXPECT_EQ(away(high, -0x1p-10f), 0u);
  EXPECT_EQ(away(-low, -0x1p-10f), 0u);
  EXPECT_EQ(away(-high, 0x1p-10f), 0u);
}

TEST(SparseSmall, WritesTheSameBytesOnEveryMachine) {
  const Case c = Trained(kBlock + 5000, 20);
  const Bytes expected =
      EncodeSparseUpdateSmall(*kernels::ChooseKernels("reference"), c.update, c.theta);
  EXPECT_EQ(DigestOf(expected).Hex(), "386ba48d5f2ff1ef1d080ae08cebbc19");
  kernels::OnEveryTarget([&] {
    EXPECT_EQ(EncodeSparseUpdateSmall(*kernels::ChooseKernels("simd"), c.update, c.theta),
              expected);
  });
}

TEST(SparseSmall, TakesFewerBytesThanFast) {
  const Case c = Trained(kBlock, 20);
  EXPECT_LT(static_cast<double>(EncodeSparseUpdateSmall(Kernels(), c.update, c.theta).size()),
            0.95 * static_cast<double>(EncodeSparseUpdate(c.update).size()));
}

void ExpectToSurviveEveryDamage(const Case& c) {
  const Bytes bytes = EncodeSparseUpdateSmall(Kernels(), c.update, c.theta);
  const auto expect_strict = [&](const Bytes& damaged) {
    const auto decoded = DecodeSparseUpdateSmall(Kernels(), damaged, c.theta);
    if (!decoded.ok()) {
      EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
      return;
    }
    EXPECT_EQ(Validate(*decoded), OkStatus());
    EXPECT_EQ(EncodeSparseUpdateSmall(Kernels(), *decoded, c.theta), damaged);
  };
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + ptrdiff_t(size));
    EXPECT_FALSE(DecodeSparseUpdateSmall(Kernels(), cut, c.theta).ok());
    expect_strict(cut);
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(DecodeSparseUpdateSmall(Kernels(), longer, c.theta).ok());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ 1u << bit % 8);
    expect_strict(flipped);
  }
}

TEST(SparseSmall, SurvivesEveryTruncationAndBitFlipAndHasOneSpelling) {
  ExpectToSurviveEveryDamage(Trained(300, 100));
  ExpectToSurviveEveryDamage(Trained(700, 4));
  ExpectToSurviveEveryDamage(Trained(100, 1));
  Case alike;  // a code of one symbol, complemented positions
  alike.theta.assign(100, 0.5f);
  for (uint64_t i = 0; i < 97; ++i) Push(alike.update, i, 0.0f);
  Close(alike.update, 100);
  ExpectToSurviveEveryDamage(alike);
}

TEST(SparseSmall, RefusesManyClaimedEntriesInFewBytes) {
  ContainerWriter writer(
      {.codec = CodecId::kSparseUpdateSmall, .word_bytes = 4, .elements = kBlock});
  writer.bytes().insert(writer.bytes().end(), 60, 0);
  writer.CloseBlock(kBlock);
  const auto decoded =
      DecodeSparseUpdateSmall(Kernels(), writer.Finish(), std::vector<float>(kBlock, 0.5f));
  EXPECT_THAT(std::string(decoded.status().message()),
              HasSubstr("block 0: 0 entries in classes, expected 1048576"));
}

TEST(SparseSmall, RefusesAnotherNumberOfElementsOrAnotherCodec) {
  const Case c = Trained(300, 10);
  const Bytes bytes = EncodeSparseUpdateSmall(Kernels(), c.update, c.theta);
  const auto shorter = std::span(c.theta).first(299);
  EXPECT_EQ(DecodeSparseUpdateSmall(Kernels(), bytes, shorter).status().message(),
            "sparse update: 300 elements, expected 299");
  EXPECT_EQ(
      DecodeSparseUpdateSmall(Kernels(), EncodeSparseUpdate(c.update), c.theta).status().message(),
      "sparse update: codec 2, expected 4");
}

}  // namespace
}  // namespace pulse
