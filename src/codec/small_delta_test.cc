#include "codec/small_delta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>

#include "codec/container.h"
#include "core/rng.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlock = kWordDeltaBlockElements;

const kernels::KernelTable& Kernels(std::string_view name = "auto") {
  static const std::map<std::string_view, kernels::KernelTable> tables = {
      {"auto", kernels::ChooseKernels("auto").value()},
      {"reference", kernels::ChooseKernels("reference").value()}};
  return tables.at(name);
}

Bytes RandomBytes(size_t count, uint32_t sample = 0) {
  Rng rng(7, {.sample = sample});
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  return bytes;
}

void Move(Bytes& words, size_t word_bytes, size_t position, uint64_t step) {
  uint64_t word = 0;
  std::memcpy(&word, &words[position * word_bytes], word_bytes);
  word += step;
  std::memcpy(&words[position * word_bytes], &word, word_bytes);
}

Bytes ToBytes(const std::vector<uint16_t>& words) {
  const ByteView view = AsBytes(std::span<const uint16_t>(words));
  return Bytes(view.begin(), view.end());
}

Bytes ExpectRoundTrip(const Bytes& before, const Bytes& after, DType dtype) {
  const auto delta = EncodeSmallDelta(Kernels(), before, after, dtype);
  EXPECT_TRUE(delta.ok()) << delta.status();
  Bytes rebuilt(after.size(), 0xee);
  EXPECT_EQ(ApplySmallDelta(Kernels(), delta->bytes, before, dtype, rebuilt), OkStatus());
  EXPECT_TRUE(rebuilt == after);
  rebuilt = before;
  EXPECT_EQ(ApplySmallDelta(Kernels(), delta->bytes, rebuilt, dtype, rebuilt), OkStatus());
  EXPECT_TRUE(rebuilt == after) << "in place";
  return delta->bytes;
}

class SmallDeltaOf : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, SmallDeltaOf,
                         ::testing::Values(DType::kF8E5M2, DType::kF8E4M3, DType::kF8E8M0,
                                           DType::kI8, DType::kF16, DType::kBF16, DType::kI16,
                                           DType::kF32, DType::kI32, DType::kF64, DType::kI64),
                         [](const auto& of) { return std::string(NameOf(of.param)); });

TEST_P(SmallDeltaOf, RoundTripsAtAwkwardSizesAndDensities) {
  const size_t width = SizeOf(GetParam());
  for (const size_t words : {0, 1, 2, 63, 64, 65, 2047, 2049, 5000}) {
    const Bytes before = RandomBytes(words * width, 3);
    EXPECT_EQ(ExpectRoundTrip(before, before, GetParam()).size(), words == 0 ? 24u : 32u);
    for (const uint32_t one_in : {1, 2, 7, 100}) {
      Bytes after = before;
      Rng rng(8, {.sample = one_in});
      for (size_t at = 0; at < words; at += 1 + rng.Below(one_in)) {
        Move(after, width, at, rng.Below(3) == 0 ? 2 * rng.Below(9) + 1 : ~uint64_t{0});
      }
      ExpectRoundTrip(before, after, GetParam());
    }
  }
}

TEST_P(SmallDeltaOf, RoundTripsRandomWords) {
  const size_t bytes = 3000 * SizeOf(GetParam());
  ExpectRoundTrip(RandomBytes(bytes, 1), RandomBytes(bytes, 2), GetParam());
}

TEST_P(SmallDeltaOf, RoundTripsStepsAcrossZeroAndTheSign) {
  const size_t width = SizeOf(GetParam());
  const uint64_t top = uint64_t{1} << (8 * width - 1);
  Bytes before(6 * width), after(6 * width);
  const uint64_t from[] = {0, ~uint64_t{0}, top, top - 1, 0, top};
  const uint64_t to[] = {~uint64_t{0}, 0, top - 1, top, top, 0};
  for (size_t i = 0; i < 6; ++i) {
    std::memcpy(&before[i * width], &from[i], width);
    std::memcpy(&after[i * width], &to[i], width);
  }
  ExpectRoundTrip(before, after, GetParam());
}

TEST(SmallDelta, RoundTripsAroundTheBlockSize) {
  for (const uint64_t words : {kBlock - 1, kBlock, kBlock + 1, 2 * kBlock + 7}) {
    const Bytes before = RandomBytes(words * 2);
    Bytes after = before;
    for (const uint64_t at : {uint64_t{0}, words / 2, kBlock - 2, kBlock - 1, kBlock, words - 1}) {
      if (at < words) Move(after, 2, at, at % 2 == 0 ? 1 : ~uint64_t{0});
    }
    ExpectRoundTrip(before, after, DType::kBF16);
  }
}

TEST(SmallDelta, KeepsNanPayloadsDenormalsAndSignsOfZero) {
  ExpectRoundTrip(ToBytes({0x0000, 0x8000, 0x7fc0, 0x7fc1, 0xffc0, 0x7f80, 0x3f80, 0x0001, 0x8001}),
                  ToBytes({0x8000, 0x0000, 0x7fc1, 0xffc1, 0x7f81, 0xff80, 0x7fff, 0x8001, 0x0000}),
                  DType::kBF16);
}

// Weights as in language models, FP32 masters moved by Adam-like steps, cast to BF16.
struct Pair {
  std::vector<uint16_t> before, after;
};

Pair OneStep(size_t words, float step) {
  Rng rng(3, {});
  const auto view = [](float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  };
  Pair pair;
  for (size_t i = 0; i < words; ++i) {
    const float w = 0.028f * rng.Normal();
    pair.before.push_back(view(w));
    pair.after.push_back(view(w - step * rng.Normal()));
  }
  return pair;
}

// H(changed, step | exponent) in bits per changed word.
double BoundOf(const Pair& pair) {
  std::map<int, std::map<int, double>> steps;
  double changed = 0, bits = 0;
  for (size_t i = 0; i < pair.before.size(); ++i) {
    const int step = static_cast<int16_t>(pair.after[i] - pair.before[i]);
    ++steps[pair.before[i] >> 7 & 0xff][step];
    changed += step != 0;
  }
  for (const auto& [exponent, histogram] : steps) {
    double total = 0;
    for (const auto& [step, count] : histogram) total += count;
    for (const auto& [step, count] : histogram) bits += count * std::log2(total / count);
  }
  return bits / changed;
}

TEST(SmallDelta, ComesWithinThreePercentOfTheEntropyWhenOnePercentChanges) {
  const Pair pair = OneStep(kBlock, 4e-7f);
  const auto delta =
      EncodeSmallDelta(Kernels(), ToBytes(pair.before), ToBytes(pair.after), DType::kBF16);
  const double density = static_cast<double>(delta->changed) / kBlock;
  EXPECT_GT(density, 0.01);
  EXPECT_LT(density, 0.02);
  const double each =
      8.0 * static_cast<double>(delta->bytes.size() - 32) / static_cast<double>(delta->changed);
  EXPECT_LT(each, 1.03 * BoundOf(pair));
}

TEST(SmallDelta, FrozenRowsCostNextToNothing) {
  Pair pair = OneStep(kBlock, 4e-7f);
  size_t changed = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    if (i / 4096 % 8 != 0) pair.after[i] = pair.before[i];
    changed += pair.after[i] != pair.before[i];
  }
  const Bytes bytes = ExpectRoundTrip(ToBytes(pair.before), ToBytes(pair.after), DType::kBF16);
  // Three bits more each, were the frozen rows among the ranks.
  EXPECT_LT(8.0 * static_cast<double>(bytes.size()) / static_cast<double>(changed), 7.8);
}

TEST(SmallDelta, EveryBodyGivesTheSameBytesAndReadsThem) {
  const Pair pair = OneStep(70001, 3e-6f);
  const Bytes before = ToBytes(pair.before), after = ToBytes(pair.after);
  const Bytes delta = EncodeSmallDelta(Kernels("reference"), before, after, DType::kBF16)->bytes;
  EXPECT_EQ(EncodeSmallDelta(Kernels("auto"), before, after, DType::kBF16)->bytes, delta);
  for (const std::string_view name : {"reference", "auto"}) {
    Bytes rebuilt(before.size());
    ASSERT_TRUE(ApplySmallDelta(Kernels(name), delta, before, DType::kBF16, rebuilt).ok());
    EXPECT_TRUE(rebuilt == after);
  }
}

// The worked example of docs/format.md.
TEST(SmallDelta, EncodesAndDecodesTheWorkedExample) {
  std::vector<uint16_t> words(8, 0x3c80);
  words[7] = 0x3b80;
  const Bytes before = ToBytes(words);
  words[1] = 0x3c81;
  words[7] = 0x3b7d;
  const Bytes expected = {0x50, 0x4c, 0x53, 0x01, 0x03, 0x02, 0x00, 0x00, 0x08, 0x00, 0x00,
                          0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
                          0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x0b, 0x00, 0x00, 0x00, 0x07,
                          0x01, 0x00, 0x01, 0x01, 0x00, 0x01, 0x01, 0x00, 0x09, 0x01};
  EXPECT_EQ(ExpectRoundTrip(before, ToBytes(words), DType::kBF16), expected);
}

// What a canonical decoder must make of any bytes: an error, or exactly the change whose one
// spelling they are.
void ExpectErrorOrTheOneSpelling(const Bytes& delta, const Bytes& before, DType dtype) {
  Bytes after(before.size());
  const Status status = ApplySmallDelta(Kernels(), delta, before, dtype, after);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return;
  }
  EXPECT_EQ(EncodeSmallDelta(Kernels(), before, after, dtype)->bytes, delta);
}

void ExpectToSurviveEveryDamage(const Bytes& before, const Bytes& after, DType dtype) {
  const Bytes delta = EncodeSmallDelta(Kernels(), before, after, dtype)->bytes;
  Bytes rebuilt(before.size());
  for (size_t size = 0; size < delta.size(); ++size) {
    EXPECT_EQ(
        ApplySmallDelta(Kernels(), ByteView(delta).first(size), before, dtype, rebuilt).code(),
        absl::StatusCode::kDataLoss);
  }
  for (const uint8_t extra : Bytes{0x00, 0x01, 0xff}) {
    Bytes longer = delta;
    longer.push_back(extra);
    EXPECT_EQ(ApplySmallDelta(Kernels(), longer, before, dtype, rebuilt).code(),
              absl::StatusCode::kDataLoss);
    longer[28] = static_cast<uint8_t>(longer[28] + 1);  // block 0 owns the byte
    ExpectErrorOrTheOneSpelling(longer, before, dtype);
  }
  for (size_t bit = 0; bit < 8 * delta.size(); ++bit) {
    Bytes flipped = delta;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ 1u << bit % 8);
    ExpectErrorOrTheOneSpelling(flipped, before, dtype);
  }
}

TEST(SmallDelta, SurvivesEveryTruncationAndBitFlip) {
  for (const DType dtype : {DType::kF8E4M3, DType::kBF16, DType::kF32, DType::kI64}) {
    const size_t width = SizeOf(dtype);
    for (const size_t words : {5, 300}) {
      const Bytes before = RandomBytes(words * width);
      Bytes after = before;
      Rng rng(6, {});
      for (size_t at = 0; at < words; at += 1 + rng.Below(4)) {
        Move(after, width, at, rng.Below(2) == 0 ? 1 : rng.Below(40) * 2 + 1);
      }
      ExpectToSurviveEveryDamage(before, after, dtype);
    }
  }
}

TEST(SmallDelta, SurvivesEveryBitFlipWithAMapOfTiles) {
  const Bytes before(2048 * 8, 1);
  Bytes after = before;
  for (size_t i = 4096; i < 4160; ++i) Move(after, 1, i, 1);
  ExpectToSurviveEveryDamage(before, after, DType::kI8);
}

TEST(SmallDelta, TakesAnyPayloadInBoundedTime) {
  Rng rng(9, {});
  const Bytes before = RandomBytes(4096);
  for (int i = 0; i < 2000; ++i) {
    ContainerWriter writer({.codec = CodecId::kWordDeltaSmall, .word_bytes = 2, .elements = 2048});
    const Bytes noise = RandomBytes(3 + rng.Below(200), static_cast<uint32_t>(i));
    writer.bytes().push_back(static_cast<uint8_t>(rng.Below(30)));
    writer.bytes().push_back(static_cast<uint8_t>(rng.Below(60)));
    writer.bytes().insert(writer.bytes().end(), noise.begin(), noise.end());
    writer.CloseBlock(1 + rng.Below(300));
    ExpectErrorOrTheOneSpelling(writer.Finish(), before, DType::kBF16);
  }
}

TEST(SmallDelta, RefusesAnotherCodecWidthOrLength) {
  const Bytes before(600);
  Bytes after = before;
  after[7] = 1;
  const Bytes delta = EncodeSmallDelta(Kernels(), before, after, DType::kBF16)->bytes;
  const Bytes fast = EncodeWordDelta(Kernels(), before, after, 2)->bytes;
  Bytes out(600);
  const auto message = [&](const Bytes& bytes, size_t length, DType dtype) {
    const Status status = ApplySmallDelta(Kernels(), bytes, ByteView(before).first(length), dtype,
                                          ByteSpan(out).first(length));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_EQ(message(delta, 600, DType::kF32), "small delta: words of 2 bytes, expected 4");
  EXPECT_EQ(message(delta, 598, DType::kBF16), "small delta: 300 elements, expected 299");
  EXPECT_EQ(message(fast, 600, DType::kBF16), "small delta: codec 1, expected 3");
}

TEST(SmallDelta, RefusesArraysThatDoNotFit) {
  const Bytes six(6), eight(8);
  EXPECT_EQ(EncodeSmallDelta(Kernels(), six, eight, DType::kBF16).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeSmallDelta(Kernels(), six, six, DType::kF32).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pulse
