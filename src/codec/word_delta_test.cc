#include "codec/word_delta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "codec/handmade.h"
#include "core/rng.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlock = kWordDeltaBlockElements;

kernels::KernelTable Kernels() {
  return kernels::ChooseKernels("reference").value();
}

Bytes RandomBytes(size_t count, uint32_t sample = 0) {
  Rng rng(7, {.sample = sample});
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  return bytes;
}

// Adds `step`, an odd number, to the word at `position`, modulo its width.
void Move(Bytes& words, size_t word_bytes, size_t position, uint64_t step) {
  uint64_t word = 0;
  std::memcpy(&word, &words[position * word_bytes], word_bytes);
  word += step;
  std::memcpy(&words[position * word_bytes], &word, word_bytes);
}

uint64_t CountDiffering(const Bytes& before, const Bytes& after, size_t word_bytes) {
  uint64_t changed = 0;
  for (size_t at = 0; at < before.size(); at += word_bytes) {
    changed += std::memcmp(&before[at], &after[at], word_bytes) != 0;
  }
  return changed;
}

Bytes ExpectRoundTrip(const Bytes& before, const Bytes& after, size_t word_bytes) {
  const auto delta = EncodeWordDelta(Kernels(), before, after, word_bytes);
  EXPECT_TRUE(delta.ok()) << delta.status();
  EXPECT_EQ(delta->changed, CountDiffering(before, after, word_bytes));
  Bytes rebuilt(after.size(), 0xee);
  EXPECT_EQ(ApplyWordDelta(Kernels(), delta->bytes, before, word_bytes, rebuilt), OkStatus());
  EXPECT_TRUE(rebuilt == after);
  rebuilt = before;
  EXPECT_EQ(ApplyWordDelta(Kernels(), delta->bytes, rebuilt, word_bytes, rebuilt), OkStatus());
  EXPECT_TRUE(rebuilt == after) << "in place";
  return delta->bytes;
}

class WordDeltaOfWidth : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(All, WordDeltaOfWidth, ::testing::Values(1, 2, 4, 8));

TEST_P(WordDeltaOfWidth, RoundTripsAroundTheBlockSize) {
  const size_t width = GetParam();
  for (const uint64_t words : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{1000}, kBlock - 1,
                               kBlock, kBlock + 1, 2 * kBlock + 7}) {
    SCOPED_TRACE(words);
    const Bytes before = RandomBytes(words * width);
    Bytes after = before;
    EXPECT_EQ(ExpectRoundTrip(before, after, width).size(),
              24 + 8 * ((words + kBlock - 1) / kBlock))
        << "unchanged blocks cost a directory entry";
    for (const uint64_t at : {uint64_t{0}, words / 2, kBlock - 2, kBlock - 1, kBlock, words - 1}) {
      if (at < words) Move(after, width, at, at % 2 == 0 ? 1 : ~uint64_t{0});
    }
    ExpectRoundTrip(before, after, width);
  }
}

TEST_P(WordDeltaOfWidth, RoundTripsWhenEveryWordMoves) {
  const Bytes before = RandomBytes((kBlock + 9) * GetParam());
  Bytes after = before;
  for (size_t i = 0; i < kBlock + 9; ++i) Move(after, GetParam(), i, i % 3 == 0 ? 1 : 253);
  ExpectRoundTrip(before, after, GetParam());
}

TEST_P(WordDeltaOfWidth, RoundTripsRandomWords) {
  const size_t bytes = (kBlock + 100) * GetParam();
  ExpectRoundTrip(RandomBytes(bytes, 1), RandomBytes(bytes, 2), GetParam());
}

TEST_P(WordDeltaOfWidth, RoundTripsStepsAcrossZeroAndTheSign) {
  const size_t width = GetParam();
  const uint64_t top = uint64_t{1} << (8 * width - 1);
  Bytes before(6 * width), after(6 * width);
  const uint64_t from[] = {0, ~uint64_t{0}, top, top - 1, 0, top};
  const uint64_t to[] = {~uint64_t{0}, 0, top - 1, top, top, 0};
  for (size_t i = 0; i < 6; ++i) {
    std::memcpy(&before[i * width], &from[i], width);
    std::memcpy(&after[i * width], &to[i], width);
  }
  ExpectRoundTrip(before, after, width);
}

TEST(WordDelta, KeepsNanPayloadsAndSignsOfZero) {
  const std::vector<uint16_t> before = {0x0000, 0x8000, 0x7fc0, 0x7fc1, 0xffc0, 0x7f80, 0x3f80};
  const std::vector<uint16_t> after = {0x8000, 0x0000, 0x7fc1, 0xffc1, 0x7f81, 0xff80, 0x7fff};
  const ByteView a = AsBytes(std::span(before)), b = AsBytes(std::span(after));
  ExpectRoundTrip(Bytes(a.begin(), a.end()), Bytes(b.begin(), b.end()), 2);
}

TEST(WordDelta, SimdKernelsGiveTheSameBytes) {
  const kernels::KernelTable fast = kernels::ChooseKernels("auto").value();
  const Bytes before = RandomBytes(2 * 70000);
  Bytes after = before;
  for (size_t i = 0; i < 70000; i += 37) Move(after, 2, i, 1);
  const Bytes delta = EncodeWordDelta(Kernels(), before, after, 2)->bytes;
  EXPECT_EQ(EncodeWordDelta(fast, before, after, 2)->bytes, delta);
  Bytes rebuilt(before.size());
  ASSERT_TRUE(ApplyWordDelta(fast, delta, before, 2, rebuilt).ok());
  EXPECT_TRUE(rebuilt == after);
}

// Weights as in language models (sigma 0.02), FP32 masters moved by Adam-like steps, cast to BF16:
// about 1 % of the words change. The format's size is a promise; its figures are in the docs.
TEST(WordDelta, OfOneAdamStepTakesLessThanElevenBitsPerChangedWord) {
  Rng rng(3, {});
  const auto view = [](float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  };
  std::vector<uint16_t> before(kBlock), after(kBlock);
  for (size_t i = 0; i < kBlock; ++i) {
    const float w = 0.02f * rng.Normal();
    before[i] = view(w);
    after[i] = view(w - 3e-7f * rng.Normal());
  }
  const auto delta = EncodeWordDelta(Kernels(), AsBytes(std::span<const uint16_t>(before)),
                                     AsBytes(std::span<const uint16_t>(after)), 2);
  const double density = static_cast<double>(delta->changed) / kBlock;
  EXPECT_GT(density, 0.005);
  EXPECT_LT(density, 0.02);
  EXPECT_LT(8.0 * static_cast<double>(delta->bytes.size()) / static_cast<double>(delta->changed),
            11.0);
}

// The worked example of docs/format.md.
struct Example {
  Bytes before, after, delta;
};

Example Worked() {
  std::vector<uint16_t> words(300, 0x3c80);
  const ByteView view = AsBytes(std::span<const uint16_t>(words));
  Example example{.before = Bytes(view.begin(), view.end()), .after = {}, .delta = {}};
  words[0] = 0x3c81;
  words[1] = 0x3c7f;
  words[5] = 0x3c7e;
  words[298] = 0x3c85;
  example.after = Bytes(view.begin(), view.end());
  example.delta = {0x50, 0x4c, 0x53, 0x01, 0x01, 0x02, 0x00, 0x00, 0x2c, 0x01, 0x00, 0x00, 0x00,
                   0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
                   0x00, 0x00, 0x2c, 0x00, 0x00, 0x00, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x05, 0x29,
                   0x00, 0x00, 0x00, 0x00, 0x03, 0xff, 0x25, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x01,
                   0x09, 0x00, 0x00, 0xe1, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x01, 0x09, 0x00, 0x00,
                   0x06, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x01, 0x09, 0x00, 0x00, 0x00};
  return example;
}

TEST(WordDelta, DecodesTheWorkedExample) {
  const Example example = Worked();
  Bytes rebuilt(example.before.size());
  EXPECT_EQ(ApplyWordDelta(Kernels(), example.delta, example.before, 2, rebuilt), OkStatus());
  EXPECT_TRUE(rebuilt == example.after);
}

TEST(WordDelta, EncodesTheWorkedExample) {
  const Example example = Worked();
  const Bytes delta = EncodeWordDelta(Kernels(), example.before, example.after, 2)->bytes;
  // Up to zstd, whose bytes are its own.
  EXPECT_EQ(handmade::Unpack(delta),
            (std::vector<handmade::Block>{{4, {{0, 0, 3, 255, 37}, {0xe1}, {6}, {0}}}}));
  EXPECT_EQ(Bytes(delta.begin(), delta.begin() + 28),
            Bytes(example.delta.begin(), example.delta.begin() + 28));
}

// What every decoder must make of any bytes: an error, or exactly the change that they spell.
// Before zstd one change has one spelling, so encoding the outcome must give the same sections.
void ExpectErrorOrMeaning(const Bytes& delta, const Bytes& before, size_t word_bytes) {
  Bytes after(before.size());
  const Status status = ApplyWordDelta(Kernels(), delta, before, word_bytes, after);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return;
  }
  const Bytes again = EncodeWordDelta(Kernels(), before, after, word_bytes)->bytes;
  EXPECT_TRUE(handmade::Unpack(again) == handmade::Unpack(delta));
}

void ExpectToSurviveEveryDamage(const Bytes& before, const Bytes& after, size_t word_bytes) {
  const Bytes delta = EncodeWordDelta(Kernels(), before, after, word_bytes)->bytes;
  Bytes rebuilt(before.size());
  for (size_t size = 0; size < delta.size(); ++size) {
    const Bytes cut(delta.begin(), delta.begin() + ptrdiff_t(size));
    EXPECT_EQ(ApplyWordDelta(Kernels(), cut, before, word_bytes, rebuilt).code(),
              absl::StatusCode::kDataLoss);
  }
  for (const uint8_t extra : Bytes{0x00, 0x28, 0xff}) {
    Bytes longer = delta;
    longer.push_back(extra);
    EXPECT_EQ(ApplyWordDelta(Kernels(), longer, before, word_bytes, rebuilt).code(),
              absl::StatusCode::kDataLoss);
  }
  for (size_t bit = 0; bit < 8 * delta.size(); ++bit) {
    Bytes flipped = delta;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ 1u << bit % 8);
    ExpectErrorOrMeaning(flipped, before, word_bytes);
  }
}

TEST(WordDelta, SurvivesEveryTruncationAndBitFlipOfASmallDelta) {
  const Example example = Worked();
  ExpectToSurviveEveryDamage(example.before, example.after, 2);
  for (const size_t width : {1, 2, 4, 8}) {
    const Bytes before = RandomBytes(40 * width);
    Bytes after = before;
    for (const size_t at : {0, 3, 4, 17, 39}) Move(after, width, at, 0x0103'0107'0b01'0303 >> at);
    ExpectToSurviveEveryDamage(before, after, width);
  }
}

TEST(WordDelta, SurvivesEveryTruncationAndBitFlipOfCompressedSections) {
  // Enough changes that zstd uses its Huffman stage, and too few for one byte per section.
  const Bytes before = RandomBytes(2 * 4000);
  Bytes after = before;
  Rng rng(5, {});
  for (size_t at = 0; at < 4000; at += 1 + rng.Below(8)) {
    Move(after, 2, at, rng.Below(4) == 0 ? 2 + rng.Below(20) : rng.Below(2) == 0 ? 1 : 0xffff);
  }
  ExpectToSurviveEveryDamage(before, after, 2);
}

TEST(WordDelta, SurvivesEveryTruncationAndBitFlipOverTwoBlocks) {
  const Bytes before(kBlock + 3, 5);
  Bytes after = before;
  after[9] = 6;
  after[kBlock - 1] = 200;
  after[kBlock + 2] = 4;
  ExpectToSurviveEveryDamage(before, after, 1);
}

void ExpectRefused(const handmade::Block& block, std::string_view why) {
  const ContainerHeader header{.codec = CodecId::kWordDeltaFast, .word_bytes = 2, .elements = 300};
  Bytes words(600);
  const Status status = ApplyWordDelta(Kernels(), handmade::Pack(header, {block}), words, 2, words);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(why)));
}

TEST(WordDelta, RefusesSectionsThatNoEncoderWrites) {
  const Bytes two = {0, 0}, codes = {0b11'01};  // +1, then an escape
  ExpectRefused({2, {}}, "block 0 has 2 entries in 0 bytes");
  ExpectRefused({2, {{0}}}, "a section of 1 bytes, expected 2 to 3");
  ExpectRefused({2, {{0, 0, 0, 0}}}, "a section of 4 bytes, expected 2 to 3");
  ExpectRefused({2, {{0, 0, 0}}}, "the gaps hold 3 entries, expected 2");
  ExpectRefused({2, {{0, 255}}}, "the gaps hold 1 entries, expected 2");
  ExpectRefused({2, {{0, 0, 255}}}, "the gaps end inside a gap");
  ExpectRefused({2, {{0, 255, 44}}}, "position 300 in a block of 300");
  ExpectRefused({2, {two}}, "no zstd frame");
  ExpectRefused({2, {two, {0b01'01, 0}}}, "a section of 2 bytes, expected 1 to 1");
  ExpectRefused({2, {two, {0b01'00'00}}}, "unused bits");
  ExpectRefused({2, {two, codes}}, "no zstd frame");
  ExpectRefused({2, {two, codes, {1}}}, "no zstd frame");
  ExpectRefused({2, {two, codes, {1, 2}, {0}}}, "a section of 2 bytes, expected 1 to 1");
  ExpectRefused({2, {two, codes, {0xfc}, {0xff}}}, "escape 65532 of step 1 is out of range");
  ExpectRefused({2, {two, codes, {1}, {0}, {0}}}, "10 bytes behind the last section");
  ExpectRefused({2, {two, {0b01'01}, {1}, {0}}}, "20 bytes behind the last section");
}

TEST(WordDelta, RefusesAnotherCodecWidthOrLength) {
  const Example example = Worked();
  Bytes words(600);
  const auto message = [&](const Bytes& delta, ByteSpan array, size_t word_bytes) {
    const Status status = ApplyWordDelta(Kernels(), delta, array, word_bytes, array);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_EQ(message(example.delta, words, 4), "word delta: words of 2 bytes, expected 4");
  EXPECT_EQ(message(example.delta, ByteSpan(words).first(598), 2),
            "word delta: 300 elements, expected 299");
  EXPECT_EQ(
      message(ContainerWriter({.codec = CodecId::kSparseUpdateFast, .word_bytes = 2}).Finish(), {},
              2),
      "word delta: codec 2, expected 1");
}

TEST(WordDelta, RefusesArraysThatDoNotFit) {
  const Bytes six(6), eight(8);
  const auto code = [](const auto& result) {
    if constexpr (requires { result.status(); })
      return result.status().code();
    else
      return result.code();
  };
  EXPECT_EQ(code(EncodeWordDelta(Kernels(), six, eight, 2)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(EncodeWordDelta(Kernels(), six, six, 4)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(EncodeWordDelta(Kernels(), six, six, 3)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(EncodeWordDelta(Kernels(), six, six, 0)), absl::StatusCode::kInvalidArgument);
  const Bytes delta = EncodeWordDelta(Kernels(), six, six, 2)->bytes;
  Bytes out(8);
  EXPECT_EQ(code(ApplyWordDelta(Kernels(), delta, six, 2, out)),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      code(ApplyWordDelta(Kernels(), delta, ByteView(out).first(6), 2, ByteSpan(out).subspan(2))),
      absl::StatusCode::kInvalidArgument)
      << "overlapping in part";
}

}  // namespace
}  // namespace pulse
