#include "codec/class_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "core/rng.h"

namespace pulse {
namespace {

using kernels::ClassRankBodies;

// Words of every exponent, with Inf, NaN, denormals and zeros among them.
std::vector<uint16_t> AwkwardWords(size_t n, uint32_t sample) {
  Rng rng(11, {.sample = sample});
  std::vector<uint16_t> words(n);
  for (uint16_t& word : words) {
    const float w = 0.02f * rng.Normal();
    word = rng.Below(50) == 0 ? static_cast<uint16_t>(rng.U32())
                              : static_cast<uint16_t>(std::bit_cast<uint32_t>(w) >> 16);
  }
  return words;
}

std::vector<uint32_t> Every(size_t n, uint32_t one_in, uint32_t sample) {
  Rng rng(12, {.sample = sample});
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < n; ++i) {
    if (rng.Below(one_in) == 0) positions.push_back(i);
  }
  return positions;
}

struct Coded {
  Bytes bytes;
  ClassOrder order;
};

Coded Encode(ByteView before, DType dtype, std::span<const uint32_t> positions) {
  ClassPositionCoder coder(ClassRankBodies().back(), LayoutOf(dtype));
  StreamsWriter streams;
  Coded coded;
  coder.Encode(before, positions, streams, coded.order);
  streams.Finish(coded.bytes);
  return coded;
}

Status Decode(ByteView before, DType dtype, ByteView bytes, std::span<uint32_t> positions,
              ClassOrder& order) {
  PULSE_ASSIGN_OR_RETURN(StreamsReader streams, StreamsReader::Open(bytes));
  ClassPositionCoder coder(ClassRankBodies().back(), LayoutOf(dtype));
  PULSE_RETURN_IF_ERROR(coder.Decode(before, streams, positions, order));
  return streams.Finish();
}

Bytes ExpectRoundTrip(ByteView before, DType dtype, std::span<const uint32_t> positions) {
  const Coded coded = Encode(before, dtype, positions);
  ClassOrder order;
  std::vector<uint32_t> decoded(positions.size());
  EXPECT_EQ(Decode(before, dtype, coded.bytes, decoded, order), OkStatus());
  EXPECT_EQ(order.begins, coded.order.begins);
  EXPECT_EQ(order.slots, coded.order.slots);
  EXPECT_TRUE(std::ranges::equal(decoded, positions));
  return coded.bytes;
}

TEST(ClassPositions, RoundTripAtAwkwardSizesAndDensities) {
  for (const size_t n : {1, 2, 63, 65, 2047, 2048, 2049, 20000}) {
    const std::vector<uint16_t> words = AwkwardWords(n, static_cast<uint32_t>(n));
    const ByteView bytes = AsBytes(std::span<const uint16_t>(words));
    for (const uint32_t one_in : {1, 2, 3, 10, 300}) {
      SCOPED_TRACE(testing::Message() << n << " words, one in " << one_in);
      std::vector<uint32_t> positions = Every(n, one_in, 1);
      if (positions.empty()) positions = {static_cast<uint32_t>(n - 1)};
      ExpectRoundTrip(bytes, DType::kBF16, positions);
      ExpectRoundTrip(bytes, DType::kF16, positions);
      ExpectRoundTrip(bytes.first(n), DType::kF8E4M3, positions);
      ExpectRoundTrip(bytes.first(n), DType::kI8, positions);
      positions.resize(std::max<size_t>(1, positions.size() / 9));
      if (positions.back() < n / 4) {
        ExpectRoundTrip(bytes.first(n / 4 * 4), DType::kF32, positions);
      }
    }
  }
}

TEST(ClassPositions, LeaveOutTilesThatNeverChange) {
  const std::vector<uint16_t> words = AwkwardWords(1 << 20, 1);
  const ByteView bytes = AsBytes(std::span<const uint16_t>(words));
  std::vector<uint32_t> scattered, frozen;
  for (const uint32_t position : Every(1 << 20, 100, 2)) {
    scattered.push_back(position);
    if (position / 2048 % 8 == 0) frozen.push_back(position);
  }
  const size_t bits = 8 * ExpectRoundTrip(bytes, DType::kBF16, frozen).size();
  // Spread over all tiles, an entry would cost log2(8) bits more.
  const double each = static_cast<double>(bits) / static_cast<double>(frozen.size());
  const double full = 8.0 *
                      static_cast<double>(ExpectRoundTrip(bytes, DType::kBF16, scattered).size()) /
                      static_cast<double>(scattered.size());
  EXPECT_LT(each, full + 0.8);
}

TEST(ClassPositions, TakeTheTopExponentFromWhatIsCommon) {
  std::vector<uint16_t> words(8192, 0x3c80);  // 2^-6
  words[4] = 0x7fc1;                          // one NaN does not move the classes
  words[8] = 0x4f00;                          // nor does an outlier
  const auto top = [&] {
    return TopExponent(AsBytes(std::span<const uint16_t>(words)), LayoutOf(DType::kBF16));
  };
  EXPECT_EQ(top(), 0x3c80u >> 7);
  for (size_t i = 0; i < 4096; ++i) words[i] = 0x4000;
  EXPECT_EQ(top(), 0x4000u >> 7);
}

// An even step through the words would see this column in every sample.
TEST(ClassPositions, AColumnOfOutliersDoesNotMoveTheTopExponent) {
  std::vector<uint16_t> words(1 << 20, 0x3c80);
  for (size_t i = 0; i < words.size(); i += 4096) words[i] = 0x7fc1;
  EXPECT_EQ(TopExponent(AsBytes(std::span<const uint16_t>(words)), LayoutOf(DType::kBF16)),
            0x3c80u >> 7);
}

TEST(ClassPositions, DecodeGivesAnErrorOrTheOneSpellingForDamagedBytes) {
  const std::vector<uint16_t> words = AwkwardWords(5000, 3);
  const ByteView before = AsBytes(std::span<const uint16_t>(words));
  const std::vector<uint32_t> positions = Every(5000, 9, 4);
  const Bytes good = Encode(before, DType::kBF16, positions).bytes;
  size_t decoded = 0;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
    ClassOrder order;
    std::vector<uint32_t> other(positions.size());
    const Status status = Decode(before, DType::kBF16, bad, other, order);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      continue;
    }
    ++decoded;
    EXPECT_EQ(Encode(before, DType::kBF16, other).bytes, bad) << "bit " << bit;
  }
  EXPECT_GT(decoded, 0u) << "some flips spell another set";
  for (size_t size = 0; size < good.size(); ++size) {
    ClassOrder order;
    std::vector<uint32_t> other(positions.size());
    EXPECT_FALSE(Decode(before, DType::kBF16, ByteView(good).first(size), other, order).ok());
  }
}

}  // namespace
}  // namespace pulse
