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

uint32_t TopExponent(const std::vector<uint16_t>& words, const kernels::WordLayout& layout) {
  ExponentSample sample;
  sample.Start(words.size(), layout);
  const std::span all(words);
  // In two pieces, as blocks come in chunks.
  sample.Add(AsBytes(all.first(words.size() / 3)));
  sample.Add(AsBytes(all.subspan(words.size() / 3)));
  return sample.Top();
}

// Gives the coder the block, in chunks.
void Scan(ClassPositionCoder& coder, ByteView before, size_t word_bytes) {
  const size_t chunk_bytes = ClassPositionCoder::kChunkWords * word_bytes;
  coder.Start(before.size() / word_bytes);
  for (size_t at = 0; at < before.size(); at += chunk_bytes) {
    coder.Add(before.subspan(at, std::min(chunk_bytes, before.size() - at)));
  }
}

struct Coded {
  Bytes bytes;
  ClassBegins begins;
  std::vector<uint32_t> by_class;  // the positions, in the order of the classes
};

Coded Encode(ByteView before, DType dtype, std::span<const uint32_t> positions) {
  ClassPositionCoder coder(ClassRankBodies().back(), LayoutOf(dtype),
                           before.size() / SizeOf(dtype));
  StreamsWriter streams;
  Coded coded;
  Scan(coder, before, SizeOf(dtype));
  coder.Encode(before, positions, streams);
  streams.Finish(coded.bytes);
  coded.begins = coder.begins();
  coded.by_class.resize(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) coded.by_class[coder.slots()[i]] = positions[i];
  return coded;
}

Status Decode(ByteView before, DType dtype, ByteView bytes, std::span<uint32_t> positions,
              ClassBegins* begins = nullptr) {
  PULSE_ASSIGN_OR_RETURN(StreamsReader streams, StreamsReader::Open(bytes));
  ClassPositionCoder coder(ClassRankBodies().back(), LayoutOf(dtype),
                           before.size() / SizeOf(dtype));
  PULSE_RETURN_IF_ERROR(coder.Decode(before, streams, positions));
  if (begins != nullptr) *begins = coder.begins();
  return streams.Finish();
}

Bytes ExpectRoundTrip(ByteView before, DType dtype, std::span<const uint32_t> positions) {
  const Coded coded = Encode(before, dtype, positions);
  ClassBegins begins = {};
  std::vector<uint32_t> decoded(positions.size());
  EXPECT_EQ(Decode(before, dtype, coded.bytes, decoded, &begins), OkStatus());
  EXPECT_EQ(begins, coded.begins);
  EXPECT_EQ(decoded, coded.by_class);
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
  const auto top = [&] { return TopExponent(words, LayoutOf(DType::kBF16)); };
  EXPECT_EQ(top(), 0x3c80u >> 7);
  for (size_t i = 0; i < 4096; ++i) words[i] = 0x4000;
  EXPECT_EQ(top(), 0x4000u >> 7);
}

// An even step through the words would see this column in every sample.
TEST(ClassPositions, AColumnOfOutliersDoesNotMoveTheTopExponent) {
  std::vector<uint16_t> words(1 << 20, 0x3c80);
  for (size_t i = 0; i < words.size(); i += 4096) words[i] = 0x7fc1;
  EXPECT_EQ(TopExponent(words, LayoutOf(DType::kBF16)), 0x3c80u >> 7);
}

// The classes are guessed from the block before, and the guess must not show.
TEST(ClassPositions, AreTheSameBytesWhateverBlockCameBefore) {
  ClassPositionCoder reused(ClassRankBodies().back(), LayoutOf(DType::kBF16), 150'000);
  for (const float scale : {1.0f, 1e-3f, 1e3f, 1.0f, 1e-6f}) {
    Rng rng(13, {.sample = 1});
    std::vector<uint16_t> words(150'000);
    for (size_t i = 0; i < words.size(); ++i) {
      // The first words are not like the rest either.
      const float w = (i < 70'000 ? 16.0f : 1.0f) * scale * rng.Normal();
      words[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(w) >> 16);
    }
    const ByteView before = AsBytes(std::span<const uint16_t>(words));
    const std::vector<uint32_t> positions = Every(words.size(), 80, 2);
    const Coded fresh = Encode(before, DType::kBF16, positions);
    StreamsWriter streams;
    Scan(reused, before, 2);
    reused.Encode(before, positions, streams);
    Bytes bytes;
    streams.Finish(bytes);
    EXPECT_EQ(bytes, fresh.bytes) << scale;
    std::vector<uint32_t> decoded(positions.size());
    StreamsReader reader = StreamsReader::Open(bytes).value();
    EXPECT_EQ(reused.Decode(before, reader, decoded), OkStatus());
    EXPECT_EQ(decoded, fresh.by_class);
  }
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
    std::vector<uint32_t> other(positions.size());
    const Status status = Decode(before, DType::kBF16, bad, other);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      continue;
    }
    ++decoded;
    std::ranges::sort(other);
    EXPECT_EQ(Encode(before, DType::kBF16, other).bytes, bad) << "bit " << bit;
  }
  EXPECT_GT(decoded, 0u) << "some flips spell another set";
  for (size_t size = 0; size < good.size(); ++size) {
    std::vector<uint32_t> other(positions.size());
    EXPECT_FALSE(Decode(before, DType::kBF16, ByteView(good).first(size), other).ok());
  }
}

}  // namespace
}  // namespace pulse
