// Codec "small" of sparse updates (docs/format.md) for a team of threads per block; the plain twin
// is codec/sparse_small.cc. The bytes are the same.
#pragma once

#include <bit>

#include "kernels/class_rank/class_rank_cuda_op.h"
#include "kernels/cuda/launch_plan.h"
#include "kernels/sparse_small/grid_value.h"
#include "kernels/sparse_small/prefix_code_op.h"
#include "kernels/sparse_small/rank_list_op.h"

namespace pulse::kernels {

inline constexpr uint32_t kValueCodes = 8;  // two classes share one
// A code's counts, lengths, work of BuildLengths with other lengths to compare, and table.
inline constexpr uint32_t kCodeScratch =
    3 * kTeamSymbols + kLengthsScratch + (1u << kTeamMaxCodeBits) / 2;

// Words of one team for blocks of at most `entries` entries.
constexpr uint64_t SparseSmallScratch(uint64_t entries) {
  return 64 + 2 * kSegmentCounts + 3 * entries + kValueCodes * kCodeScratch;
}

// A sparse update in device memory, as core/sparse_update.h lays it out.
struct SparseEntries {
  const float* theta;
  uint64_t elements;
  const uint64_t* starts;

  struct Block {
    const float* theta;
    uint32_t elements;
    uint64_t first;  // entry
    uint32_t entries;
  };
  PULSE_HOST_DEVICE Block At(uint64_t b) const {
    const uint64_t begin = b * kScatterBlockElements, left = elements - begin;
    return {theta + begin,
            static_cast<uint32_t>(left < kScatterBlockElements ? left : kScatterBlockElements),
            starts[b], static_cast<uint32_t>(starts[b + 1] - starts[b])};
  }
};

// What the scratch of a team is cut into.
struct SparseSmallParts {
  uint32_t *cells, *counts, *entry_counts, *by_class, *rest, *off_grid;
  uint32_t *histogram, *lengths, *others, *work;  // by code
  uint16_t* tables;

  PULSE_HOST_DEVICE SparseSmallParts(uint32_t* at, uint32_t entries) {
    const auto take = [&](uint32_t words) {
      uint32_t* const part = at;
      at += words;
      return part;
    };
    cells = take(64);
    counts = take(kSegmentCounts);
    entry_counts = take(kSegmentCounts);
    by_class = take(entries);
    rest = take(entries);
    off_grid = take(entries);
    histogram = take(kValueCodes * kTeamSymbols);
    lengths = take(kValueCodes * kTeamSymbols);
    others = take(kValueCodes * kTeamSymbols);
    work = take(kValueCodes * kLengthsScratch);
    tables = reinterpret_cast<uint16_t*>(take(kValueCodes * (1u << kTeamMaxCodeBits) / 2));
  }
};

PULSE_HOST_DEVICE inline uint32_t FloatBits(float x) {
  return std::bit_cast<uint32_t>(x);
}

// The class of each element of a block of theta.
struct ThetaClasses {
  const float* theta;
  uint32_t top;
  PULSE_HOST_DEVICE uint32_t operator()(uint32_t i) const {
    return ClassBelow(top, FloatBits(theta[i]) >> 23 & 0xFF);
  }
};

template <typename Team>
PULSE_HOST_DEVICE ThetaClasses ClassifyTheta(const Team& team, const SparseEntries::Block& block) {
  const float* const theta = block.theta;
  return {theta,
          team.Max(block.elements, [&](uint32_t i) { return FloatBits(theta[i]) >> 23 & 0xFF; })};
}

// Run twice: first for the sizes alone (out null), then to put the bytes where they belong.
struct SparseSmallEncodeOp {
  SparseEntries update;
  const uint32_t* positions;
  const float* values;
  uint32_t coarser;
  uint32_t* sizes;          // by block, bytes: written by both passes
  const uint64_t* offsets;  // by block: of its first byte in out
  uint32_t* out;            // zero where payloads will be; 4-byte aligned

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    const SparseEntries::Block block = update.At(b);
    if (block.entries == 0) {
      team.One([&] { sizes[b] = 0; });
      return;
    }
    const SparseSmallParts parts(scratch, block.entries);
    const ThetaClasses class_of = ClassifyTheta(team, block);
    const uint64_t begin = out == nullptr ? 0 : 8 * offsets[b];
    uint64_t at = EncodePositions(team, block, class_of, parts, begin);
    at = EncodeValues(team, block, class_of, parts, at);
    team.One([&] { sizes[b] = static_cast<uint32_t>((at - begin + 7) / 8); });
  }

 private:
  template <typename Team>
  PULSE_HOST_DEVICE uint64_t EncodePositions(const Team& team, const SparseEntries::Block& block,
                                             const ThetaClasses& class_of,
                                             const SparseSmallParts& p, uint64_t at) const {
    CountClasses(team, block.elements, class_of, p.counts);
    RankByClass(team, block.elements, class_of, p.counts, positions + block.first, block.entries,
                p.entry_counts, p.by_class, nullptr);
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      const uint32_t bits = BitWidth(ClassSize(p.counts, c));
      team.One([&] { PutBits(team, out, at, ClassSize(p.entry_counts, c), bits); });
      at += bits;
    }
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      at = PutRanks(team, p.by_class + ClassBegin(p.entry_counts, c), ClassSize(p.entry_counts, c),
                    ClassSize(p.counts, c), p.rest, out, at);
    }
    return at;
  }

  template <typename Team>
  PULSE_HOST_DEVICE uint64_t EncodeValues(const Team& team, const SparseEntries::Block& block,
                                          const ThetaClasses& class_of, const SparseSmallParts& p,
                                          uint64_t at) const {
    const uint32_t* const entry = positions + block.first;
    const float* const value = values + block.first;
    const auto theta_at = [&](uint32_t i) { return FloatBits(block.theta[entry[i]]); };
    team.Each(kValueCodes * kTeamSymbols, [&](uint32_t i) { p.histogram[i] = 0; });
    const uint32_t off_grid = team.Scan(
        block.entries,
        [&](uint32_t i) {
          return static_cast<uint32_t>(IsOffGrid(theta_at(i), FloatBits(value[i]), coarser));
        },
        [&](uint32_t i, uint32_t before) {
          const uint32_t theta = theta_at(i), bits = FloatBits(value[i]);
          if (IsOffGrid(theta, bits, coarser)) p.off_grid[before] = i;
          team.Add(&p.histogram[class_of(entry[i]) / 2 * kTeamSymbols + SymbolOf(theta, bits)], 1);
        });
    team.One([&] { PutBits(team, out, at, off_grid, BitWidth(block.entries)); });
    at += BitWidth(block.entries);
    at = PutRanks(team, p.off_grid, off_grid, block.entries, p.rest, out, at);
    // The histogram becomes the codes.
    team.Each(kValueCodes, [&](uint32_t code) {
      uint32_t* const counts = p.histogram + code * kTeamSymbols;
      uint32_t* const lengths = p.lengths + code * kTeamSymbols;
      const uint32_t symbols = BuildLengths(counts, lengths, p.work + code * kLengthsScratch);
      p.cells[code] = symbols;
      BuildCodes(lengths, symbols, counts);
    });
    team.One([&] {
      uint64_t next = at;
      for (uint32_t code = 0; code < kValueCodes; ++code) {
        if (p.cells[code] > 0) next = PutLengths(team, p.lengths + code * kTeamSymbols, out, next);
      }
      p.cells[kValueCodes] = static_cast<uint32_t>(next - at);
    });
    at += p.cells[kValueCodes];
    const auto bits_of = [&](uint32_t i) -> RankBits {
      const uint32_t theta = theta_at(i), bits = FloatBits(value[i]);
      const uint32_t symbol = SymbolOf(theta, bits);
      const uint32_t below = IsOffGrid(theta, bits, coarser)
                                 ? 0
                                 : BitsBelowGrid(theta, ExponentOfSymbol(symbol), coarser);
      const uint32_t code = p.histogram[class_of(entry[i]) / 2 * kTeamSymbols + symbol];
      const uint64_t plain = LowBits(bits, kPlainMantissaBits) >> below;
      return {plain << (code % 16) | code / 16, code % 16 + kPlainMantissaBits - below};
    };
    return at + team.Scan(
                    block.entries, [&](uint32_t i) { return bits_of(i).bits; },
                    [&](uint32_t i, uint32_t before) {
                      const RankBits put = bits_of(i);
                      PutBits(team, out, at + before, put.value, put.bits);
                    });
  }
};

// What is wrong with a block's bytes; 0: nothing. Zeroed by the caller.
enum class SparseSmallError : uint32_t {
  kNone,
  kClasses,
  kPositions,
  kOffGrid,
  kCodes,
  kValues,
  kEnd,
  kOtherCode
};

// Fills positions and values of every block with entries. Any bytes: what no encoder writes leaves
// an error, and those of the block unspecified.
struct SparseSmallDecodeOp {
  SparseEntries update;  // starts: from the container's directory
  const uint8_t* bytes;
  const uint64_t* offsets;  // of each block's payload in bytes; blocks + 1
  uint32_t coarser;
  uint32_t* positions;
  float* values;
  uint32_t* errors;  // by block

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    const SparseEntries::Block block = update.At(b);
    team.One([&] { errors[b] = 0; });
    if (block.entries == 0) return;
    const SparseSmallParts p(scratch, block.entries);
    const ThetaClasses class_of = ClassifyTheta(team, block);
    CountClasses(team, block.elements, class_of, p.counts);
    uint32_t* const begins = p.cells;  // kTeamClasses + 1
    BitCursor cursor{bytes + offsets[b], offsets[b + 1] - offsets[b]};
    // One thread reads, so the cursor that moves is always the same thread's.
    team.One([&] { errors[b] = static_cast<uint32_t>(ReadPositions(block, p, cursor, begins)); });
    if (errors[b] != 0) return;
    SelectByClass(team, block.elements, class_of, p.counts, begins, p.by_class, p.entry_counts,
                  positions + block.first, nullptr);
    team.Each(kValueCodes * kTeamSymbols, [&](uint32_t i) { p.histogram[i] = 0; });
    team.One(
        [&] { errors[b] = static_cast<uint32_t>(ReadValues(block, class_of, p, cursor, begins)); });
    if (errors[b] != 0) return;
    team.Each(kValueCodes, [&](uint32_t code) {
      uint32_t* const others = p.others + code * kTeamSymbols;
      BuildLengths(p.histogram + code * kTeamSymbols, others, p.work + code * kLengthsScratch);
      for (uint32_t s = 0; s < kTeamSymbols; ++s) {
        if (others[s] == p.lengths[code * kTeamSymbols + s]) continue;
        errors[b] = static_cast<uint32_t>(SparseSmallError::kOtherCode);
      }
    });
  }

 private:
  PULSE_HOST_DEVICE static SparseSmallError ReadPositions(const SparseEntries::Block& block,
                                                          const SparseSmallParts& p,
                                                          BitCursor& cursor, uint32_t* begins) {
    uint64_t sum = 0;
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      const uint32_t size = ClassSize(p.counts, c);
      const uint64_t entries = cursor.Read(BitWidth(size));
      if (entries > size) return SparseSmallError::kClasses;
      begins[c] = static_cast<uint32_t>(sum);
      sum += entries;
    }
    begins[kTeamClasses] = block.entries;
    if (sum != block.entries) return SparseSmallError::kClasses;
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      if (!ReadRanksBelow(cursor, ClassSize(p.counts, c), p.by_class + begins[c],
                          begins[c + 1] - begins[c])) {
        return SparseSmallError::kPositions;
      }
    }
    return cursor.IsSpent() ? SparseSmallError::kPositions : SparseSmallError::kNone;
  }

  PULSE_HOST_DEVICE SparseSmallError ReadValues(const SparseEntries::Block& block,
                                                const ThetaClasses& class_of,
                                                const SparseSmallParts& p, BitCursor& cursor,
                                                const uint32_t* begins) const {
    const uint64_t off_grid = cursor.Read(BitWidth(block.entries));
    if (off_grid > block.entries) return SparseSmallError::kOffGrid;
    if (!ReadRanksBelow(cursor, block.entries, p.off_grid, static_cast<uint32_t>(off_grid))) {
      return SparseSmallError::kOffGrid;
    }
    for (uint32_t code = 0; code < kValueCodes; ++code) {
      uint32_t* const lengths = p.lengths + code * kTeamSymbols;
      if (begins[2 * code] == begins[2 * code + 2]) {
        for (uint32_t s = 0; s < kTeamSymbols; ++s) lengths[s] = 0;
        continue;
      }
      uint32_t symbols = 0;
      if (!ReadPrefixLengths(cursor, lengths, &symbols)) return SparseSmallError::kCodes;
      BuildPrefixTable(lengths, symbols, p.tables + (code << kTeamMaxCodeBits));
    }
    if (cursor.IsSpent()) return SparseSmallError::kCodes;
    uint32_t next_off = 0;
    for (uint32_t i = 0; i < block.entries; ++i) {
      const uint32_t position = positions[block.first + i];
      const uint32_t theta = FloatBits(block.theta[position]);
      const uint32_t code = class_of(position) / 2;
      const uint64_t bits = cursor.Peek();
      const uint32_t found = p.tables[(code << kTeamMaxCodeBits) +
                                      LowBits(static_cast<uint32_t>(bits), kTeamMaxCodeBits)];
      const uint32_t symbol = found % kTeamSymbols, length = found / kTeamSymbols;
      ++p.histogram[code * kTeamSymbols + symbol];
      const uint32_t below = BitsBelowGrid(theta, ExponentOfSymbol(symbol), coarser);
      const bool is_off = next_off < off_grid && p.off_grid[next_off] == i;
      const uint32_t omitted = is_off ? 0 : below, plain_bits = kPlainMantissaBits - omitted;
      const uint32_t plain = LowBits(static_cast<uint32_t>(bits >> length), plain_bits);
      cursor.at += length + plain_bits;
      if (is_off) {
        if (LowBits(plain, below) == 0) return SparseSmallError::kValues;
        ++next_off;
      }
      values[block.first + i] =
          std::bit_cast<float>(ValueOfSymbol(theta, symbol) | plain << omitted);
    }
    return cursor.IsAtEnd() ? SparseSmallError::kNone : SparseSmallError::kEnd;
  }
};

}  // namespace pulse::kernels
