// Codec "fast" (docs/format.md), up to its zstd frames, for a team of threads per block: gaps of
// positions, steps of words, byte planes of values. The plain twins are codec/gaps.cc,
// codec/steps.cc and the planes of codec/sections.cc. The bytes are the same.
//
// A block's sections lie one behind the other. Of a word delta: gaps, codes, then a plane of
// escapes for each byte of a word. Of a sparse update: gaps, then four planes of values.
#pragma once

#include "kernels/cuda/launch_plan.h"
#include "kernels/cuda/team.h"

namespace pulse::kernels {

inline constexpr uint32_t kGapSkip = 255;
inline constexpr uint32_t kStepEscape =
    3;  // the code; also the first rank that has none of its own
inline constexpr uint32_t kCodesPerByte = 4;

// Words of one team that decodes blocks of at most `entries` entries: the most bytes of their gaps.
constexpr uint64_t GapsScratch(uint64_t entries) {
  return entries + kScatterBlockElements / kGapSkip + 1;
}

constexpr uint32_t StepCodeBytes(uint32_t steps) {
  return (steps + kCodesPerByte - 1) / kCodesPerByte;
}

// Writes the gaps of ascending positions; how many bytes they are. out null: only counted.
template <typename Team>
PULSE_HOST_DEVICE uint32_t PutGaps(const Team& team, const uint32_t* positions, uint32_t entries,
                                   uint8_t* out) {
  const auto gap_of = [&](uint32_t e) {
    return positions[e] - (e == 0 ? 0 : positions[e - 1] + 1);
  };
  return team.Scan(
      entries, [&](uint32_t e) { return gap_of(e) / kGapSkip + 1; },
      [&](uint32_t e, uint32_t at) {
        if (out == nullptr) return;
        uint32_t gap = gap_of(e);
        for (; gap >= kGapSkip; gap -= kGapSkip) out[at++] = kGapSkip;
        out[at] = static_cast<uint8_t>(gap);
      });
}

// The inverse; false, for all threads, unless the bytes are those of so many positions below
// `elements`. ends: GapsScratch words.
template <typename Team>
PULSE_HOST_DEVICE bool TakeGaps(const Team& team, const uint8_t* gaps, uint32_t bytes,
                                uint32_t elements, uint32_t* ends, uint32_t* positions,
                                uint32_t entries) {
  const auto is_end = [&](uint32_t i) { return gaps[i] != kGapSkip ? 1u : 0u; };
  if (bytes == 0 || gaps[bytes - 1] == kGapSkip) return false;
  const uint32_t found =
      team.Scan(bytes, is_end, [&](uint32_t i, uint32_t before) { ends[i] = before; });
  if (found != entries) return false;
  team.Scan(
      bytes, [&](uint32_t i) { return gaps[i] + is_end(i); },
      [&](uint32_t i, uint32_t before) {
        if (is_end(i) != 0) positions[ends[i]] = before + gaps[i];
      });
  return positions[entries - 1] < elements;
}

template <typename Word>
struct StepRank {
  static constexpr uint32_t kSign = 8 * sizeof(Word) - 1;
  // Ranks run up to max - 1: that of max would be the step 0.
  static constexpr Word kLastEscape =
      static_cast<Word>(static_cast<Word>(~Word{0}) - 1 - kStepEscape);

  PULSE_HOST_DEVICE static Word Of(Word step) {
    const Word sign = static_cast<Word>(0 - (step >> kSign));
    return static_cast<Word>((static_cast<Word>(step << 1) ^ sign) - 1);
  }
  PULSE_HOST_DEVICE static Word StepOf(Word rank) {
    const Word zigzag = static_cast<Word>(rank + 1);
    return static_cast<Word>((zigzag >> 1) ^ static_cast<Word>(0 - (zigzag & 1)));
  }
};

// Run twice: first for the sizes alone (out null), then to put the sections where they belong.
template <typename Word>
struct WordStepsEncodeOp {
  const Word* before;
  const Word* after;
  const uint64_t* starts;  // of the changed words, as DiffCuda leaves them
  const uint32_t* positions;
  uint32_t* sizes;          // by block, 2 words: bytes of gaps, number of escapes
  const uint64_t* offsets;  // by block: of its sections in out
  uint8_t* out;

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* /*scratch*/) const {
    const auto entries = static_cast<uint32_t>(starts[b + 1] - starts[b]);
    const uint32_t* const changed = positions + starts[b];
    const Word* const was = before + b * kScatterBlockElements;
    const Word* const is = after + b * kScatterBlockElements;
    const auto rank_of = [&](uint32_t e) {
      return StepRank<Word>::Of(static_cast<Word>(is[changed[e]] - was[changed[e]]));
    };
    const auto escapes_at = [&](uint32_t e) {
      return e < entries && rank_of(e) >= kStepEscape ? 1u : 0u;
    };
    uint8_t* const gaps = out == nullptr ? nullptr : out + offsets[b];
    const uint32_t gap_bytes = PutGaps(team, changed, entries, gaps);
    uint8_t* const codes = gaps + (out == nullptr ? 0 : gap_bytes);
    const uint32_t code_bytes = StepCodeBytes(entries);
    const uint32_t planes = out == nullptr ? 0 : sizes[2 * b + 1];  // bytes of each
    const uint32_t escapes = team.Scan(entries, escapes_at, [&](uint32_t e, uint32_t slot) {
      if (out == nullptr || escapes_at(e) == 0) return;
      const Word above = static_cast<Word>(rank_of(e) - kStepEscape);
      for (uint32_t plane = 0; plane < sizeof(Word); ++plane) {
        codes[code_bytes + plane * planes + slot] = static_cast<uint8_t>(above >> (8 * plane));
      }
    });
    if (out == nullptr) {
      team.One([&] {
        sizes[2 * b] = gap_bytes;
        sizes[2 * b + 1] = escapes;
      });
      return;
    }
    team.Each(code_bytes, [&](uint32_t i) {
      uint32_t byte = 0;
      for (uint32_t j = 0; j < kCodesPerByte; ++j) {
        const uint32_t e = i * kCodesPerByte + j;
        if (e >= entries) break;
        const Word rank = rank_of(e);
        byte |= (rank < kStepEscape ? static_cast<uint32_t>(rank) : kStepEscape) << (2 * j);
      }
      codes[i] = static_cast<uint8_t>(byte);
    });
  }
};

enum class WordStepsError : uint32_t { kNone, kGaps, kCodes, kEscapes };

// Moves the words of every block with entries, in place. Any bytes: what no encoder writes leaves
// an error, and the words of the block unspecified.
template <typename Word>
struct WordStepsApplyOp {
  Word* words;
  uint64_t elements;
  const uint64_t* starts;   // of entries, from the container's directory
  const uint32_t* sizes;    // by block, 2 words: bytes of gaps, number of escapes
  const uint8_t* sections;  // plain
  const uint64_t* offsets;  // by block
  uint32_t* positions;      // scratch for all entries
  uint32_t* errors;         // by block

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    team.One([&] { errors[b] = 0; });
    const auto entries = static_cast<uint32_t>(starts[b + 1] - starts[b]);
    if (entries == 0) return;
    const uint64_t begin = b * kScatterBlockElements, left = elements - begin;
    const auto n =
        static_cast<uint32_t>(left < kScatterBlockElements ? left : kScatterBlockElements);
    const uint32_t gap_bytes = sizes[2 * b], escapes = sizes[2 * b + 1];
    const uint8_t* const gaps = sections + offsets[b];
    const uint8_t* const codes = gaps + gap_bytes;
    const uint8_t* const planes = codes + StepCodeBytes(entries);
    uint32_t* const at = positions + starts[b];
    if (!TakeGaps(team, gaps, gap_bytes, n, scratch, at, entries)) {
      return Fail(team, b, WordStepsError::kGaps);
    }
    const auto code_of = [&](uint32_t e) {
      return codes[e / kCodesPerByte] >> (e % kCodesPerByte * 2) & 3u;
    };
    const uint32_t used = entries % kCodesPerByte;
    if (used != 0 && codes[entries / kCodesPerByte] >> (2 * used) != 0) {
      return Fail(team, b, WordStepsError::kCodes);
    }
    const uint32_t found = team.Scan(
        entries, [&](uint32_t e) { return code_of(e) == kStepEscape ? 1u : 0u; },
        [&](uint32_t e, uint32_t slot) { scratch[e] = slot; });
    if (found != escapes) return Fail(team, b, WordStepsError::kCodes);
    team.Each(entries, [&](uint32_t e) {
      Word rank = static_cast<Word>(code_of(e));
      if (rank == kStepEscape) {
        Word above = 0;
        for (uint32_t plane = 0; plane < sizeof(Word); ++plane) {
          above = static_cast<Word>(
              above | static_cast<Word>(Word{planes[plane * escapes + scratch[e]]} << (8 * plane)));
        }
        if (above > StepRank<Word>::kLastEscape) {
          errors[b] = static_cast<uint32_t>(WordStepsError::kEscapes);
          return;
        }
        rank = static_cast<Word>(kStepEscape + above);
      }
      Word& word = words[begin + at[e]];
      word = static_cast<Word>(word + StepRank<Word>::StepOf(rank));
    });
  }

 private:
  template <typename Team>
  PULSE_HOST_DEVICE void Fail(const Team& team, uint64_t b, WordStepsError error) const {
    team.One([&] { errors[b] = static_cast<uint32_t>(error); });
  }
};

// Run twice, as above. sizes: by block, bytes of gaps.
struct SparseFastEncodeOp {
  const uint64_t* starts;
  const uint32_t* positions;
  const float* values;
  uint32_t* sizes;
  const uint64_t* offsets;
  uint8_t* out;

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* /*scratch*/) const {
    const auto entries = static_cast<uint32_t>(starts[b + 1] - starts[b]);
    uint8_t* const gaps = out == nullptr ? nullptr : out + offsets[b];
    const uint32_t gap_bytes = PutGaps(team, positions + starts[b], entries, gaps);
    if (out == nullptr) {
      team.One([&] { sizes[b] = gap_bytes; });
      return;
    }
    team.Each(4 * entries, [&](uint32_t i) {
      const uint32_t bits = std::bit_cast<uint32_t>(values[starts[b] + i % entries]);
      gaps[gap_bytes + i] = static_cast<uint8_t>(bits >> (8 * (i / entries)));
    });
  }
};

struct SparseFastDecodeOp {
  uint64_t elements;
  const uint64_t* starts;
  const uint32_t* sizes;
  const uint8_t* sections;
  const uint64_t* offsets;
  uint32_t* positions;
  float* values;
  uint32_t* errors;

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    team.One([&] { errors[b] = 0; });
    const auto entries = static_cast<uint32_t>(starts[b + 1] - starts[b]);
    if (entries == 0) return;
    const uint64_t left = elements - b * kScatterBlockElements;
    const auto n =
        static_cast<uint32_t>(left < kScatterBlockElements ? left : kScatterBlockElements);
    const uint8_t* const gaps = sections + offsets[b];
    if (!TakeGaps(team, gaps, sizes[b], n, scratch, positions + starts[b], entries)) {
      team.One([&] { errors[b] = static_cast<uint32_t>(WordStepsError::kGaps); });
      return;
    }
    const uint8_t* const planes = gaps + sizes[b];
    team.Each(entries, [&](uint32_t e) {
      uint32_t bits = 0;
      for (uint32_t plane = 0; plane < 4; ++plane) {
        bits |= uint32_t{planes[plane * entries + e]} << (8 * plane);
      }
      values[starts[b] + e] = std::bit_cast<float>(bits);
    });
  }
};

}  // namespace pulse::kernels
