// Codec "small" of word deltas (docs/format.md) for a team of threads per block; the plain twin is
// codec/small_delta.cc. The bytes are the same.
#pragma once

#include "kernels/class_rank/class_rank_cuda_op.h"
#include "kernels/cuda/launch_plan.h"
#include "kernels/small_delta/rice_set_op.h"

namespace pulse::kernels {

inline constexpr uint32_t kMapTileWords = 2048;
inline constexpr uint32_t kMaxMapTiles = kScatterBlockElements / kMapTileWords;
inline constexpr uint32_t kMaxExponents = 2048;

// Words of one team for blocks of at most `entries` changes.
constexpr uint64_t SmallDeltaScratch(uint64_t entries) {
  const uint64_t words = 64 + 2 * kSegmentCounts + 3 * kMaxMapTiles + kMaxExponents + 9 * entries;
  return words + words % 2;  // teams' parts stay aligned to 8 bytes
}

// Where words keep their exponents (codec/class_positions.h: LayoutOf); mask 0: one class.
struct ExponentLayout {
  uint32_t shift = 0;
  uint32_t mask = 0;
};

struct SmallDeltaParts {
  uint32_t *cells, *counts, *entry_counts, *tile_flags, *tiles, *tile_rest, *exponents;
  uint64_t* steps;
  uint32_t *positions, *slots, *by_class, *rest, *members, *at_level, *next_level;

  PULSE_HOST_DEVICE SmallDeltaParts(uint32_t* at, uint32_t entries) {
    const auto take = [&](uint32_t words) {
      uint32_t* const part = at;
      at += words;
      return part;
    };
    steps = reinterpret_cast<uint64_t*>(take(2 * entries));  // first: aligned to 8 bytes
    cells = take(64);
    counts = take(kSegmentCounts);
    entry_counts = take(kSegmentCounts);
    tile_flags = take(kMaxMapTiles);
    tiles = take(kMaxMapTiles);
    tile_rest = take(kMaxMapTiles);
    exponents = take(kMaxExponents);
    positions = take(entries);
    slots = take(entries);
    by_class = take(entries);
    rest = take(entries);
    members = take(entries);
    at_level = take(entries);
    next_level = take(entries);
  }
};

// One block of words before the change.
template <typename Word>
struct WordBlock {
  const Word* words;
  uint32_t n;

  PULSE_HOST_DEVICE uint32_t tiles() const { return (n + kMapTileWords - 1) / kMapTileWords; }
};
template <typename Word>
PULSE_HOST_DEVICE inline WordBlock<Word> WordBlockAt(const Word* words, uint64_t elements,
                                                     uint64_t b) {
  const uint64_t begin = b * kScatterBlockElements, left = elements - begin;
  return {words + begin,
          static_cast<uint32_t>(left < kScatterBlockElements ? left : kScatterBlockElements)};
}

// The class of each word; none in a tile that is left out. tile_flags null: none is.
template <typename Word>
struct WordClasses {
  const Word* words;
  ExponentLayout layout;
  uint32_t top;
  const uint32_t* tile_flags;

  PULSE_HOST_DEVICE uint32_t operator()(uint32_t i) const {
    if (tile_flags != nullptr && tile_flags[i / kMapTileWords] == 0) return kNoClass;
    return ClassBelow(top, static_cast<uint32_t>(words[i] >> layout.shift) & layout.mask);
  }
};

// Class 0's exponent: from a sample, without its largest.
template <typename Team, typename Word>
PULSE_HOST_DEVICE uint32_t TopOfWords(const Team& team, const WordBlock<Word>& block,
                                      ExponentLayout layout, const SmallDeltaParts& p) {
  constexpr uint32_t kSampleWords = 4096, kOutliersPerSample = 1024;
  const uint32_t stride = (block.n / kSampleWords) | 1;
  const uint32_t sampled = (block.n + stride - 1) / stride;
  team.Each(layout.mask + 1, [&](uint32_t e) { p.exponents[e] = 0; });
  team.Each(sampled, [&](uint32_t i) {
    const Word word = block.words[i * stride];
    team.Add(&p.exponents[static_cast<uint32_t>(word >> layout.shift) & layout.mask], 1);
  });
  team.One([&] {
    uint32_t top = layout.mask;
    for (uint32_t above = p.exponents[top]; top > 0 && above <= sampled / kOutliersPerSample;) {
      above += p.exponents[--top];
    }
    p.cells[0] = top;
  });
  return p.cells[0];
}

// Whether leaving out `idle` of `tiles` pays, as the format has it.
PULSE_HOST_DEVICE inline bool TileMapPays(uint32_t tiles, uint32_t idle, uint32_t entries) {
  return 3 * uint64_t{entries} * idle >= 2 * uint64_t{tiles} * tiles;
}

// Flags the tiles that hold some of `positions`; how many those are. Their list goes to p.tiles.
template <typename Team>
PULSE_HOST_DEVICE uint32_t FlagTiles(const Team& team, uint32_t tiles, const uint32_t* positions,
                                     uint32_t entries, const SmallDeltaParts& p) {
  team.Each(tiles, [&](uint32_t t) { p.tile_flags[t] = 0; });
  team.Each(entries, [&](uint32_t e) { p.tile_flags[positions[e] / kMapTileWords] = 1; });
  return team.Scan(
      tiles, [&](uint32_t t) { return p.tile_flags[t]; },
      [&](uint32_t t, uint32_t before) {
        if (p.tile_flags[t] != 0) p.tiles[before] = t;
      });
}

// The sizes of steps of a word's width, as levels: 0, 1, 2 hold one size each; level l >= 3 those
// from 2^(l - 1) on, of which l - 1 more bits tell; and the last one only the largest.
template <typename Word>
struct StepLevels {
  static constexpr uint32_t kWordBits = 8 * sizeof(Word);
  static constexpr uint32_t kLevels = kWordBits + 1;
  static constexpr uint64_t kMask = ~uint64_t{0} >> (64 - kWordBits);

  PULSE_HOST_DEVICE static bool IsNegative(uint64_t step) { return step >> (kWordBits - 1) != 0; }
  PULSE_HOST_DEVICE static uint64_t Negated(uint64_t step) { return (0 - step) & kMask; }
  PULSE_HOST_DEVICE static uint64_t SizeOf(uint64_t step) {
    return IsNegative(step) ? Negated(step) : step;
  }
  PULSE_HOST_DEVICE static uint32_t LevelOf(uint64_t size) {
    return size < 4 ? static_cast<uint32_t>(size) - 1 : BitWidth(size);
  }
  PULSE_HOST_DEVICE static uint64_t Threshold(uint32_t level) {
    return level < 3 ? level + 1 : uint64_t{1} << (level - 1);
  }
  PULSE_HOST_DEVICE static uint32_t ExtraBits(uint32_t level) {
    return level < 3 || level == kWordBits ? 0 : level - 1;
  }
};

// Run twice: first for the sizes alone (out null), then to put the bytes where they belong.
template <typename Word>
struct SmallDeltaEncodeOp {
  using Levels = StepLevels<Word>;

  const Word* before;
  const Word* after;
  uint64_t elements;
  ExponentLayout layout;
  const uint64_t* starts;  // of the changed words, as DiffCuda leaves them
  const uint32_t* positions;
  uint32_t* streams;        // by block, 3 words: written by the first pass, read by the second
  uint32_t* sizes;          // by block, bytes: written by the first pass
  const uint64_t* offsets;  // by block: of its first byte in out
  uint32_t* out;            // zero where payloads will be; 4-byte aligned

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    const auto entries = static_cast<uint32_t>(starts[b + 1] - starts[b]);
    if (entries == 0) {
      if (out == nullptr) team.One([&] { sizes[b] = 0; });
      return;
    }
    const SmallDeltaParts p(scratch, entries);
    StreamPlaces<Team> places{team, out};
    uint32_t* const stream_bytes = streams + 3 * b;
    if (out != nullptr) {
      const uint32_t numbers = stream_bytes[0], raw = stream_bytes[1];
      const uint64_t begin = 8 * offsets[b];
      team.One([&] {
        places.PutNumberAt(numbers, begin);
        places.PutNumberAt(raw, begin + 8 * NumberBytes(numbers));
      });
      places.numbers_at = begin + 8 * (NumberBytes(numbers) + NumberBytes(raw));
      places.raw_at = places.numbers_at + 8 * uint64_t{numbers};
      places.unary_at = places.raw_at + 8 * uint64_t{raw};
    }
    Encode(team, b, entries, p, places);
    if (out != nullptr) return;
    team.One([&] {
      const auto bytes = [](uint64_t bits) { return static_cast<uint32_t>((bits + 7) / 8); };
      stream_bytes[0] = bytes(places.numbers_at);
      stream_bytes[1] = bytes(places.raw_at);
      stream_bytes[2] = bytes(places.unary_at);
      sizes[b] = NumberBytes(stream_bytes[0]) + NumberBytes(stream_bytes[1]) + stream_bytes[0] +
                 stream_bytes[1] + stream_bytes[2];
    });
  }

 private:
  template <typename Team>
  PULSE_HOST_DEVICE void Encode(const Team& team, uint64_t b, uint32_t entries,
                                const SmallDeltaParts& p, StreamPlaces<Team>& places) const {
    const WordBlock<Word> block = WordBlockAt(before, elements, b);
    const uint32_t* const changed = positions + starts[b];
    const Word* const now = after + b * kScatterBlockElements;
    const uint32_t top = TopOfWords(team, block, layout, p);
    const uint32_t tiles = block.tiles();
    const uint32_t touched = FlagTiles(team, tiles, changed, entries, p);
    const bool mapped = TileMapPays(tiles, tiles - touched, entries);
    places.PutNumber(mapped ? touched : 0);
    if (mapped) places.PutSet(tiles, p.tiles, touched, p.tile_rest);
    const WordClasses<Word> class_of{block.words, layout, top, mapped ? p.tile_flags : nullptr};
    CountClasses(team, block.n, class_of, p.counts);
    RankByClass(team, block.n, class_of, p.counts, changed, entries, p.entry_counts, p.by_class,
                p.slots);
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      if (ClassSize(p.counts, c) == 0) continue;
      const uint32_t members = ClassSize(p.entry_counts, c);
      places.PutNumber(members);
      places.PutSet(ClassSize(p.counts, c), p.by_class + ClassBegin(p.entry_counts, c), members,
                    p.rest);
    }
    team.Each(entries, [&](uint32_t e) {
      const uint32_t i = changed[e];
      p.steps[p.slots[e]] = static_cast<Word>(now[i] - block.words[i]);
    });
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      const uint32_t members = ClassSize(p.entry_counts, c);
      if (members > 0) {
        EncodeSteps(team, p.steps + ClassBegin(p.entry_counts, c), members, p, places);
      }
    }
  }

  template <typename Team>
  PULSE_HOST_DEVICE static void EncodeSteps(const Team& team, const uint64_t* steps, uint32_t count,
                                            const SmallDeltaParts& p, StreamPlaces<Team>& places) {
    const auto level_of = [&](uint32_t i) { return Levels::LevelOf(Levels::SizeOf(steps[i])); };
    team.Each(count, [&](uint32_t i) {
      PutBits(team, places.words, places.raw_at + i, Levels::IsNegative(steps[i]) ? 1 : 0, 1);
    });
    places.raw_at += count;
    const uint32_t highest = team.Max(count, level_of);
    uint32_t* at_level = p.at_level;
    uint32_t* next_level = p.next_level;
    uint32_t among = count;
    for (uint32_t level = 1; level < Levels::kLevels; ++level) {
      const bool first = level == 1;
      const auto step_of = [&](uint32_t i) { return first ? i : at_level[i]; };
      const uint32_t reaching = team.Scan(
          among, [&](uint32_t i) { return level_of(step_of(i)) >= level ? 1u : 0u; },
          [&](uint32_t i, uint32_t slot) {
            if (level_of(step_of(i)) < level) return;
            p.members[slot] = i;
            next_level[slot] = step_of(i);
          });
      places.PutNumber(reaching);
      if (reaching == 0) break;
      places.PutSet(among, p.members, reaching, p.rest);
      uint32_t* const swapped = at_level;
      at_level = next_level;
      next_level = swapped;
      among = reaching;
    }
    if (highest < 3) return;
    places.raw_at += team.Scan(
        count, [&](uint32_t i) { return Levels::ExtraBits(level_of(i)); },
        [&](uint32_t i, uint32_t before_it) {
          const uint32_t level = level_of(i);
          PutBits(team, places.words, places.raw_at + before_it,
                  Levels::SizeOf(steps[i]) - Levels::Threshold(level), Levels::ExtraBits(level));
        });
  }
};

// What is wrong with a block's bytes; 0: nothing.
enum class SmallDeltaError : uint32_t {
  kNone,
  kStreams,
  kTiles,
  kClasses,
  kSteps,
  kEnd,
  kOtherMap
};

// Moves the words of every block with entries, in place. Any bytes: what no encoder writes leaves
// an error, and the words of the block unspecified.
template <typename Word>
struct SmallDeltaApplyOp {
  using Levels = StepLevels<Word>;

  Word* words;
  uint64_t elements;
  ExponentLayout layout;
  const uint32_t* entries;  // by block, from the container's directory
  const uint8_t* bytes;
  const uint64_t* offsets;  // of each block's payload in bytes; blocks + 1
  uint32_t* errors;         // by block

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    team.One([&] { errors[b] = 0; });
    const uint32_t count = entries[b];
    if (count == 0) return;
    const SmallDeltaParts p(scratch, count);
    const WordBlock<Word> block = WordBlockAt<Word>(words, elements, b);
    const uint32_t top = TopOfWords(team, block, layout, p);
    const uint32_t tiles = block.tiles();
    // One thread reads all streams; the cursors that move are its own.
    StreamCursors in;
    team.Each(tiles, [&](uint32_t t) { p.tile_flags[t] = 0; });
    team.One([&] { errors[b] = static_cast<uint32_t>(ReadMap(b, tiles, p, in)); });
    if (errors[b] != 0) return;
    const uint32_t mapped = p.cells[1];
    const WordClasses<Word> class_of{block.words, layout, top, mapped > 0 ? p.tile_flags : nullptr};
    CountClasses(team, block.n, class_of, p.counts);
    uint32_t* const begins = p.cells + 2;  // kTeamClasses + 1
    team.One([&] { errors[b] = static_cast<uint32_t>(ReadEntries(count, p, in, begins)); });
    if (errors[b] != 0) return;
    SelectByClass(team, block.n, class_of, p.counts, begins, p.by_class, p.entry_counts,
                  p.positions, p.slots);
    const uint32_t touched = FlagTiles(team, tiles, p.positions, count, p);
    const bool pays = TileMapPays(tiles, tiles - touched, count);
    if (mapped != (pays ? touched : 0)) {
      team.One([&] { errors[b] = static_cast<uint32_t>(SmallDeltaError::kOtherMap); });
      return;
    }
    Word* const moved = words + b * kScatterBlockElements;
    team.Each(count, [&](uint32_t e) {
      Word& word = moved[p.positions[e]];
      word = static_cast<Word>(word + p.steps[p.slots[e]]);
    });
  }

 private:
  PULSE_HOST_DEVICE SmallDeltaError ReadMap(uint64_t b, uint32_t tiles, const SmallDeltaParts& p,
                                            StreamCursors& in) const {
    if (!in.Open(bytes + offsets[b], static_cast<uint32_t>(offsets[b + 1] - offsets[b]))) {
      return SmallDeltaError::kStreams;
    }
    uint32_t mapped = 0;
    if (!in.GetNumber(tiles, &mapped)) return SmallDeltaError::kTiles;
    if (!in.GetSet(tiles, p.tiles, mapped, p.tile_rest)) return SmallDeltaError::kTiles;
    for (uint32_t t = 0; t < mapped; ++t) p.tile_flags[p.tiles[t]] = 1;
    p.cells[1] = mapped;
    return SmallDeltaError::kNone;
  }

  PULSE_HOST_DEVICE static SmallDeltaError ReadEntries(uint32_t count, const SmallDeltaParts& p,
                                                       StreamCursors& in, uint32_t* begins) {
    uint32_t begin = 0;
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      begins[c] = begin;
      const uint32_t size = ClassSize(p.counts, c), left = count - begin;
      if (size == 0) continue;
      uint32_t members = 0;
      if (!in.GetNumber(size < left ? size : left, &members)) return SmallDeltaError::kClasses;
      if (!in.GetSet(size, p.by_class + begin, members, p.rest)) return SmallDeltaError::kClasses;
      begin += members;
    }
    begins[kTeamClasses] = begin;
    if (begin != count) return SmallDeltaError::kClasses;
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      if (!ReadSteps(p.steps + begins[c], begins[c + 1] - begins[c], p, in)) {
        return SmallDeltaError::kSteps;
      }
    }
    return in.IsAtEnd() ? SmallDeltaError::kNone : SmallDeltaError::kEnd;
  }

  // Fills p.next_level with the level of each step of a class.
  PULSE_HOST_DEVICE static bool ReadLevels(uint32_t count, const SmallDeltaParts& p,
                                           StreamCursors& in) {
    for (uint32_t i = 0; i < count; ++i) p.next_level[i] = 0;
    uint32_t among = count;
    for (uint32_t level = 1; level < Levels::kLevels && among > 0; ++level) {
      uint32_t reaching = 0;
      if (!in.GetNumber(among, &reaching)) return false;
      if (!in.GetSet(among, p.members, reaching, p.rest)) return false;
      for (uint32_t i = 0; i < reaching; ++i) {
        // In place: members ascend, so none is read after it was overwritten.
        const uint32_t step = level == 1 ? p.members[i] : p.at_level[p.members[i]];
        p.next_level[step] = level;
        p.at_level[i] = step;
      }
      among = reaching;
    }
    return true;
  }

  PULSE_HOST_DEVICE static bool ReadSteps(uint64_t* steps, uint32_t count, const SmallDeltaParts& p,
                                          StreamCursors& in) {
    if (count == 0) return true;
    if (!in.HasRaw(count)) return false;
    for (uint32_t i = 0; i < count; ++i) steps[i] = in.raw.Read(1);  // whether it is negative
    if (!ReadLevels(count, p, in)) return false;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t level = p.next_level[i], bits = Levels::ExtraBits(level);
      if (!in.HasRaw(bits)) return false;
      uint64_t above = in.raw.Read(bits < 32 ? bits : 32);
      if (bits > 32) above |= in.raw.Read(bits - 32) << 32;
      const uint64_t size = Levels::Threshold(level) + above;
      const bool negative = steps[i] != 0;
      if (!negative && Levels::IsNegative(size)) return false;
      steps[i] = negative ? Levels::Negated(size) : size;
    }
    return true;
  }
};

}  // namespace pulse::kernels
