// Huffman codes of values for one thread of a team, as docs/format.md has them under "Prefix code";
// the plain twin is codec/prefix_code.cc.
#pragma once

#include "kernels/cuda/team.h"

namespace pulse::kernels {

inline constexpr uint32_t kTeamSymbols = 1024;
inline constexpr uint32_t kTeamMaxCodeBits = 11;
// Scratch words of BuildLengths.
inline constexpr uint32_t kLengthsScratch = kTeamSymbols + 2 * kTeamSymbols + 2 * kTeamSymbols;

// Ascending, in place.
PULSE_HOST_DEVICE inline void HeapSort(uint32_t* keys, uint32_t n) {
  const auto sift = [&](uint32_t root, uint32_t size) {
    for (uint32_t child; (child = 2 * root + 1) < size; root = child) {
      if (child + 1 < size && keys[child] < keys[child + 1]) ++child;
      if (keys[root] >= keys[child]) return;
      const uint32_t key = keys[root];
      keys[root] = keys[child];
      keys[child] = key;
    }
  };
  for (uint32_t i = n / 2; i-- > 0;) sift(i, n);
  for (uint32_t end = n; end > 1; --end) {
    const uint32_t key = keys[0];
    keys[0] = keys[end - 1];
    keys[end - 1] = key;
    sift(0, end - 1);
  }
}

// lengths[s], kTeamSymbols words, from the symbols' counts (at most 2^20 together). scratch:
// kLengthsScratch words. Returns how many symbols occur.
PULSE_HOST_DEVICE inline uint32_t BuildLengths(const uint32_t* counts, uint32_t* lengths,
                                               uint32_t* scratch) {
  // A key is a count and its symbol: they sort as the rule says.
  uint32_t* keys = scratch;
  uint32_t* weight = scratch + kTeamSymbols;
  uint32_t* parent = weight + 2 * kTeamSymbols;
  uint32_t leaves = 0;
  for (uint32_t s = 0; s < kTeamSymbols; ++s) {
    lengths[s] = 0;
    if (counts[s] != 0) keys[leaves++] = counts[s] * kTeamSymbols + s;
  }
  if (leaves == 1) lengths[keys[0] % kTeamSymbols] = 1;
  while (leaves > 1) {
    HeapSort(keys, leaves);
    const uint32_t nodes = 2 * leaves - 1;
    for (uint32_t i = 0; i < leaves; ++i) weight[i] = keys[i] / kTeamSymbols;
    uint32_t leaf = 0, pair = leaves;
    for (uint32_t made = leaves; made < nodes; ++made) {
      weight[made] = 0;
      for (int child = 0; child < 2; ++child) {
        const bool take_leaf = leaf < leaves && (pair == made || weight[leaf] <= weight[pair]);
        const uint32_t taken = take_leaf ? leaf++ : pair++;
        parent[taken] = made;
        weight[made] += weight[taken];
      }
    }
    uint32_t* depth = weight;
    depth[nodes - 1] = 0;
    uint32_t deepest = 0;
    for (uint32_t i = nodes - 1; i-- > 0;) {
      depth[i] = depth[parent[i]] + 1;
      if (depth[i] > deepest) deepest = depth[i];
    }
    if (deepest <= kTeamMaxCodeBits) {
      for (uint32_t i = 0; i < leaves; ++i) lengths[keys[i] % kTeamSymbols] = depth[i];
      break;
    }
    for (uint32_t i = 0; i < leaves; ++i) {
      keys[i] = (keys[i] / kTeamSymbols + 1) / 2 * kTeamSymbols + keys[i] % kTeamSymbols;
    }
  }
  return leaves;
}

// Calls assign(symbol, length, code, first bit lowest) in canonical order.
template <typename Assign>
PULSE_HOST_DEVICE void ForEachPrefixCode(const uint32_t* lengths, Assign assign) {
  uint32_t next = 0;  // first bit highest
  for (uint32_t length = 1; length <= kTeamMaxCodeBits; ++length) {
    next <<= 1;
    for (uint32_t s = 0; s < kTeamSymbols; ++s) {
      if (lengths[s] != length) continue;
      uint32_t code = 0;
      for (uint32_t bit = 0; bit < length; ++bit) code |= (next >> bit & 1) << (length - 1 - bit);
      assign(s, length, code);
      ++next;
    }
  }
}

// codes[s] = code * 16 + length; a symbol alone takes no bits.
PULSE_HOST_DEVICE inline void BuildCodes(const uint32_t* lengths, uint32_t symbols,
                                         uint32_t* codes) {
  ForEachPrefixCode(lengths, [&](uint32_t symbol, uint32_t length, uint32_t code) {
    codes[symbol] = code * 16 + (symbols == 1 ? 0 : length);
  });
}

// By one thread: puts the lengths at bit `at`; returns the bit behind.
template <typename Team>
PULSE_HOST_DEVICE uint64_t PutLengths(const Team& team, const uint32_t* lengths, uint32_t* words,
                                      uint64_t at) {
  for (uint32_t s = 0; s < kTeamSymbols;) {
    PutBits(team, words, at, lengths[s], 4);
    at += 4;
    if (lengths[s++] != 0) continue;
    uint32_t run = 1;
    for (; s < kTeamSymbols && lengths[s] == 0; ++s) ++run;
    const uint32_t low_bits = BitWidth(run) - 1;
    const uint64_t low = run - (1u << low_bits);
    PutBits(team, words, at, (low << 1 | 1) << low_bits, 2 * low_bits + 1);
    at += 2 * low_bits + 1;
  }
  return at;
}

// By one thread. False unless the bits are those of lengths of a complete code, or of one symbol.
PULSE_HOST_DEVICE inline bool ReadPrefixLengths(BitCursor& cursor, uint32_t* lengths,
                                                uint32_t* symbols) {
  for (uint32_t s = 0; s < kTeamSymbols; ++s) lengths[s] = 0;
  uint32_t taken = 0;  // of 2^kTeamMaxCodeBits
  uint32_t used = 0;
  bool behind_zeros = false;
  for (uint32_t s = 0; s < kTeamSymbols;) {
    const auto length = static_cast<uint32_t>(cursor.Read(4));
    if (length > kTeamMaxCodeBits || (length == 0 && behind_zeros)) return false;
    behind_zeros = length == 0;
    if (length != 0) {
      taken += 1u << (kTeamMaxCodeBits - length);
      lengths[s++] = length;
      ++used;
      continue;
    }
    const uint32_t low_bits = TrailingZeros(cursor.Peek() | 1u << 11);
    cursor.at += low_bits + 1;
    const uint64_t run = (uint64_t{1} << low_bits) + cursor.Read(low_bits);
    if (run > kTeamSymbols - s) return false;
    s += static_cast<uint32_t>(run);
  }
  *symbols = used;
  const bool alone = used == 1 && taken == 1u << (kTeamMaxCodeBits - 1);
  return alone || taken == 1u << kTeamMaxCodeBits;
}

// table[next kTeamMaxCodeBits bits] = length * kTeamSymbols + symbol.
PULSE_HOST_DEVICE inline void BuildPrefixTable(const uint32_t* lengths, uint32_t symbols,
                                               uint16_t* table) {
  ForEachPrefixCode(lengths, [&](uint32_t symbol, uint32_t length, uint32_t code) {
    if (symbols == 1) length = 0;
    for (uint32_t i = code; i < 1u << kTeamMaxCodeBits; i += 1u << length) {
      table[i] = static_cast<uint16_t>(length * kTeamSymbols + symbol);
    }
  });
}

}  // namespace pulse::kernels
