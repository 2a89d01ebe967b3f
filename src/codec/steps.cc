#include "codec/steps.h"

#include <bit>
#include <cstring>
#include <limits>

namespace pulse {
namespace {

constexpr unsigned kEscape = 3;  // the code; also the first rank that has none of its own
constexpr unsigned kCodeBits = 2;
constexpr size_t kCodesPerByte = 4;

template <typename Word>
Word RankOf(Word step) {
  constexpr int kSign = std::numeric_limits<Word>::digits - 1;
  const Word sign = static_cast<Word>(0 - (step >> kSign));
  return static_cast<Word>((static_cast<Word>(step << 1) ^ sign) - 1);
}

template <typename Word>
Word StepOf(Word rank) {
  const Word zigzag = static_cast<Word>(rank + 1);
  return static_cast<Word>((zigzag >> 1) ^ static_cast<Word>(0 - (zigzag & 1)));
}

template <typename Word>
void Encode(const uint8_t* before, const uint8_t* after, std::span<const uint32_t> positions,
            CodedSteps& out) {
  out.codes.assign(CodeBytes(positions.size()), 0);
  out.escapes.resize(positions.size() * sizeof(Word));
  // No branch on the code, which is hard to predict: every step writes an escape, and the next one
  // overwrites it unless it is called for.
  uint8_t* escape = out.escapes.data();
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t at = positions[i] * sizeof(Word);
    const Word rank =
        RankOf(static_cast<Word>(LoadLittle<Word>(after + at) - LoadLittle<Word>(before + at)));
    const Word above = static_cast<Word>(rank - kEscape);
    std::memcpy(escape, &above, sizeof(Word));
    const unsigned code = rank < kEscape ? static_cast<unsigned>(rank) : kEscape;
    escape += code == kEscape ? sizeof(Word) : 0;
    uint8_t& byte = out.codes[i / kCodesPerByte];
    byte = static_cast<uint8_t>(byte | code << (i % kCodesPerByte * kCodeBits));
  }
  out.escapes.resize(static_cast<size_t>(escape - out.escapes.data()));
}

template <typename Word>
Status Decode(ByteView codes, const uint8_t* escape, ByteSpan steps) {
  // Ranks run up to max - 1: that of max would be the step 0.
  constexpr Word kLastEscape = std::numeric_limits<Word>::max() - 1 - kEscape;
  for (size_t i = 0; i < steps.size() / sizeof(Word); ++i) {
    Word rank = codes[i / kCodesPerByte] >> (i % kCodesPerByte * kCodeBits) & kEscape;
    if (rank == kEscape) {
      const Word above = LoadLittle<Word>(escape);
      if (above > kLastEscape) return DataLoss("escape {} of step {} is out of range", above, i);
      rank = static_cast<Word>(kEscape + above);
      escape += sizeof(Word);
    }
    const Word step = StepOf(rank);
    std::memcpy(steps.data() + i * sizeof(Word), &step, sizeof(Word));
  }
  return OkStatus();
}

}  // namespace

void EncodeSteps(ByteView before, ByteView after, size_t word_bytes,
                 std::span<const uint32_t> positions, CodedSteps& out) {
  switch (word_bytes) {
    case 1:
      return Encode<uint8_t>(before.data(), after.data(), positions, out);
    case 2:
      return Encode<uint16_t>(before.data(), after.data(), positions, out);
    case 4:
      return Encode<uint32_t>(before.data(), after.data(), positions, out);
    default:
      return Encode<uint64_t>(before.data(), after.data(), positions, out);
  }
}

StatusOr<size_t> CountEscapes(ByteView codes, size_t steps) {
  const size_t used = steps % kCodesPerByte;
  if (used != 0 && codes.back() >> (used * kCodeBits) != 0) {
    return DataLoss("unused bits of the last code byte are not zero");
  }
  size_t escapes = 0;
  for (const uint8_t byte : codes) {
    escapes += static_cast<size_t>(std::popcount(static_cast<unsigned>(byte & byte >> 1 & 0x55)));
  }
  return escapes;
}

Status DecodeSteps(ByteView codes, ByteView escapes, size_t word_bytes, ByteSpan steps) {
  switch (word_bytes) {
    case 1:
      return Decode<uint8_t>(codes, escapes.data(), steps);
    case 2:
      return Decode<uint16_t>(codes, escapes.data(), steps);
    case 4:
      return Decode<uint32_t>(codes, escapes.data(), steps);
    default:
      return Decode<uint64_t>(codes, escapes.data(), steps);
  }
}

}  // namespace pulse
