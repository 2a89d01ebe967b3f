#include "codec/prefix_code.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace pulse {
namespace {

constexpr unsigned kLengthBits = 4;
static_assert(kMaxPrefixBits < 1u << kLengthBits);

// Depths of the symbols in `order` (by count, then symbol) in Huffman's tree, for two or more.
// Both queues are sorted by construction: leaves as given, pairs as they are made.
std::vector<uint8_t> DepthsOf(const std::vector<uint16_t>& order, const PrefixCounts& counts) {
  const size_t leaves = order.size(), nodes = 2 * leaves - 1;
  std::vector<uint32_t> weight(nodes);
  std::vector<uint16_t> parent(nodes);
  for (size_t i = 0; i < leaves; ++i) weight[i] = counts[order[i]];
  size_t leaf = 0, pair = leaves;
  for (size_t made = leaves; made < nodes; ++made) {
    for (int child = 0; child < 2; ++child) {
      const bool take_leaf = leaf < leaves && (pair == made || weight[leaf] <= weight[pair]);
      const size_t taken = take_leaf ? leaf++ : pair++;
      parent[taken] = static_cast<uint16_t>(made);
      weight[made] += weight[taken];
    }
  }
  std::vector<uint8_t> depth(nodes);
  for (size_t i = nodes - 1; i-- > 0;) {
    // Deeper than 255 can't be: weights grow like Fibonacci's numbers.
    depth[i] = static_cast<uint8_t>(depth[parent[i]] + 1);
  }
  depth.resize(leaves);
  return depth;
}

// By symbol in canonical order (by length, then symbol): assign(symbol, length, code, first bit
// lowest).
template <typename Assign>
void ForEachCode(const PrefixLengths& lengths, Assign assign) {
  std::vector<uint16_t> used;
  for (uint16_t s = 0; s < kPrefixSymbols; ++s) {
    if (lengths[s] != 0) used.push_back(s);
  }
  uint32_t next = 0;  // first bit highest
  for (unsigned length = 1; length <= kMaxPrefixBits; ++length) {
    next <<= 1;
    for (const uint16_t s : used) {
      if (lengths[s] != length) continue;
      uint32_t code = 0;
      for (unsigned bit = 0; bit < length; ++bit) code |= (next >> bit & 1) << (length - 1 - bit);
      assign(s, length, code);
      ++next;
    }
  }
}

size_t SymbolsIn(const PrefixLengths& lengths) {
  return kPrefixSymbols - static_cast<size_t>(std::count(lengths.begin(), lengths.end(), 0));
}

}  // namespace

PrefixLengths LengthsFor(PrefixCounts counts) {
  PrefixLengths lengths = {};
  std::vector<uint16_t> order;
  for (uint16_t s = 0; s < kPrefixSymbols; ++s) {
    if (counts[s] != 0) order.push_back(s);
  }
  if (order.size() == 1) lengths[order.front()] = 1;
  if (order.size() < 2) return lengths;
  while (true) {
    std::sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
      return counts[a] != counts[b] ? counts[a] < counts[b] : a < b;
    });
    const std::vector<uint8_t> depths = DepthsOf(order, counts);
    if (*std::max_element(depths.begin(), depths.end()) <= kMaxPrefixBits) {
      for (size_t i = 0; i < order.size(); ++i) lengths[order[i]] = depths[i];
      return lengths;
    }
    for (const uint16_t s : order) counts[s] = (counts[s] + 1) / 2;
  }
}

void WriteLengths(const PrefixLengths& lengths, BitWriter& writer) {
  for (size_t s = 0; s < kPrefixSymbols;) {
    writer.Write(lengths[s], kLengthBits);
    if (lengths[s++] != 0) continue;
    uint64_t run = 1;
    for (; s < kPrefixSymbols && lengths[s] == 0; ++s) ++run;
    const auto low_bits = static_cast<unsigned>(std::bit_width(run)) - 1;
    const uint64_t low = run - (uint64_t{1} << low_bits);
    writer.Write((low << 1 | 1) << low_bits, 2 * low_bits + 1);
  }
}

Status ReadLengths(BitReader& reader, PrefixLengths& lengths) {
  lengths = {};
  uint32_t taken = 0;  // of 2^kMaxPrefixBits
  bool behind_zeros = false;
  for (size_t s = 0; s < kPrefixSymbols;) {
    const auto length = static_cast<unsigned>(reader.Read(kLengthBits));
    if (length > kMaxPrefixBits || (length == 0 && behind_zeros)) {
      return DataLoss("symbol {} has code length {}", s, length);
    }
    behind_zeros = length == 0;
    if (length != 0) {
      taken += 1u << (kMaxPrefixBits - length);
      lengths[s++] = static_cast<uint8_t>(length);
      continue;
    }
    const auto low_bits = static_cast<unsigned>(std::countr_zero(reader.Peek() | 1u << 11));
    reader.Skip(low_bits + 1);
    const uint64_t run = (uint64_t{1} << low_bits) + reader.Read(low_bits);
    if (run > kPrefixSymbols - s) return DataLoss("{} symbols without code behind {}", run, s);
    s += run;
  }
  const bool alone = SymbolsIn(lengths) == 1 && taken == 1u << (kMaxPrefixBits - 1);
  if (!alone && taken != 1u << kMaxPrefixBits) return DataLoss("the code lengths make no code");
  return OkStatus();
}

PrefixEncoder::PrefixEncoder(const PrefixLengths& lengths) {
  const bool alone = SymbolsIn(lengths) == 1;
  ForEachCode(lengths, [&](size_t symbol, unsigned length, uint32_t code) {
    if (alone) length = 0;
    codes[symbol] = {static_cast<uint16_t>(code), static_cast<uint16_t>(length)};
  });
}

void PrefixDecoder::Build(const PrefixLengths& lengths) {
  const bool alone = SymbolsIn(lengths) == 1;
  ForEachCode(lengths, [&](size_t symbol, unsigned length, uint32_t code) {
    if (alone) length = 0;
    const auto entry = static_cast<uint16_t>(length * kPrefixSymbols + symbol);
    for (size_t i = code; i < table_.size(); i += size_t{1} << length) table_[i] = entry;
  });
}

}  // namespace pulse
