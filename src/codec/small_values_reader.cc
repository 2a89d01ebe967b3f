#include "codec/small_values_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/rank_list.h"
#include "kernels/class_rank/class_rank_math.h"
#include "kernels/sparse_small/grid_value.h"

namespace pulse {
namespace {

using kernels::ClassCounts;
using kernels::kRankClasses;

constexpr unsigned kSymbolBits = 10;
static_assert(kPrefixSymbols == size_t{1} << kSymbolBits);
// A table's entry holds a length beside the symbol; a window skips one at a time and has the bits
// of the next code left.
constexpr unsigned kMostValueBits = kMaxPrefixBits + kPlainMantissaBits;
static_assert(kMostValueBits < 64 && kMostValueBits + kMaxPrefixBits <= kMostBits);

}  // namespace

Status SmallValuesReader::Read(const ThetaClasses& classes, const ClassCounts& of_class,
                               std::span<const uint32_t> positions, BitReader& reader,
                               std::span<float> values) {
  // A block of theta is larger than a core's cache; so far behind the list is room.
  constexpr size_t kAhead = 32;
  static_assert(kAhead <= kernels::kListSlack);
  PULSE_RETURN_IF_ERROR(ReadOffGrid(values.size(), reader));
  PULSE_RETURN_IF_ERROR(ReadCodes(of_class, reader));
  if (reader.IsSpent()) return DataLoss("the block ends before its values");
  MakeTables(of_class, classes.top());
  for (size_t first = 0; first < values.size(); first += kBatch) {
    const auto batch = values.subspan(first, std::min(kBatch, values.size() - first));
    for (size_t i = 0; i < batch.size(); ++i) {
      __builtin_prefetch(&classes.theta()[positions[first + i + kAhead]]);
      theta_[i] = BitsOf(classes.theta()[positions[first + i]]);
    }
    PULSE_RETURN_IF_ERROR(ReadBatch(first, classes.top(), reader, batch));
  }
  if (!reader.IsAtEnd()) return DataLoss("the block does not end with its last value");
  return CheckCodes();
}

Status SmallValuesReader::ReadOffGrid(size_t entries, BitReader& reader) {
  const uint64_t off_grid = reader.Read(static_cast<unsigned>(std::bit_width(entries)));
  if (off_grid > entries) return DataLoss("{} of {} values off the grid", off_grid, entries);
  off_grid_.resize(off_grid);
  next_off_ = 0;
  return ReadRanks(reader, static_cast<uint32_t>(entries), off_grid_);
}

Status SmallValuesReader::ReadCodes(const ClassCounts& of_class, BitReader& reader) {
  for (size_t code = 0; code < kSmallCodes; ++code) {
    lengths_[code] = {};
    counts_[code].fill(0);
    if (of_class[2 * code] == 0 && of_class[2 * code + 1] == 0) continue;
    PULSE_RETURN_IF_ERROR(ReadLengths(reader, lengths_[code]));
    decoders_[code].Build(lengths_[code]);
  }
  return OkStatus();
}

void SmallValuesReader::MakeTables(const ClassCounts& of_class, uint32_t top) {
  // A table takes as long as some hundred values.
  constexpr uint32_t kWorthATable = 1000;
  of_exponent_.fill({});
  // In the last class there are several exponents.
  for (uint32_t c = 0; c + 1 < kRankClasses; ++c) {
    if (of_class[c] < kWorthATable) continue;
    const uint32_t theta = (top - c) << 23;
    std::array<uint16_t, kPrefixSymbols> plain_bits;
    for (uint32_t s = 0; s < kPrefixSymbols; ++s) {
      const unsigned below = BitsBelowGrid(theta, ExponentOfSymbol(s), coarser_);
      plain_bits[s] = static_cast<uint16_t>((kPlainMantissaBits - below) << kSymbolBits);
    }
    for (size_t i = 0; i < tables_[c].size(); ++i) {
      const uint16_t entry = decoders_[CodeOf(c)].entry(i);
      tables_[c][i] = static_cast<uint16_t>(entry + plain_bits[entry % kPrefixSymbols]);
    }
    of_exponent_[top - c] = {.table = &tables_[c], .counts = &counts_[CodeOf(c)]};
  }
}

uint32_t SmallValuesReader::ReadOne(uint32_t theta, uint32_t top, bool is_off, BitReader& reader) {
  const size_t code = CodeOf(kernels::ClassOf(theta, kernels::kFloatLayout, top));
  const uint64_t bits = reader.Peek();
  unsigned length = 0;
  const uint32_t symbol = decoders_[code].Decode(bits, &length);
  ++counts_[code][symbol];
  const unsigned below = is_off ? 0 : BitsBelowGrid(theta, ExponentOfSymbol(symbol), coarser_);
  const unsigned plain_bits = kPlainMantissaBits - below;
  reader.Skip(length + plain_bits);
  return ValueOfSymbol(theta, symbol) | LowBits(static_cast<uint32_t>(bits >> length), plain_bits)
                                            << below;
}

// Entries [begin, end) of the batch, all of them on the grid, until one whose theta has no table or
// until the payload's end may be near. Returns where it stopped. Whatever does not decide where the
// next value begins is left to the kernel that puts values together.
size_t SmallValuesReader::ReadQuickly(size_t begin, size_t end, BitReader& reader) {
  constexpr uint64_t kMostBytes = (kMostValueBits + 7) / 8;
  end = std::min<uint64_t>(end, begin + reader.bytes_left() / kMostBytes);
  if (begin >= end) return begin;
  BitWindow window = reader.Window();
  size_t i = begin;
  for (; i < end; ++i) {
    const OfExponent& of = of_exponent_[theta_[i] >> 23 & 0xFF];
    if (of.table == nullptr) break;
    const uint64_t bits = window.bits();
    const uint16_t entry = (*of.table)[window.low_bits() % of.table->size()];
    const unsigned length = entry >> kSymbolBits;
    window.Skip(length);
    const uint32_t symbol = entry % kPrefixSymbols;
    ++(*of.counts)[symbol];
    symbols_[i] = symbol;
    tails_[i] = static_cast<uint32_t>(bits << 1 << (63 - length) >> 32);
  }
  reader.MoveTo(window);
  return i;
}

// first: the batch's first entry.
Status SmallValuesReader::ReadBatch(size_t first, uint32_t top, BitReader& reader,
                                    std::span<float> values) {
  odd_.clear();
  const auto read_one = [&](size_t i, bool is_off) {
    const uint32_t value = ReadOne(theta_[i], top, is_off, reader);
    odd_.emplace_back(i, std::bit_cast<float>(value));
    symbols_[i] = tails_[i] = 0;
    return value;
  };
  for (size_t i = 0; i < values.size();) {
    const bool has_off =
        next_off_ < off_grid_.size() && off_grid_[next_off_] < first + values.size();
    const size_t end = has_off ? off_grid_[next_off_] - first : values.size();
    while (i < end) {
      i = ReadQuickly(i, end, reader);
      if (i < end) read_one(i++, false);
    }
    if (!has_off) break;
    if (!IsOffGrid(theta_[i], read_one(i, true), coarser_)) {
      return DataLoss("value {} is on the grid", first + i);
    }
    ++next_off_;
    ++i;
  }
  kernels_.grid_values.join(coarser_, std::span(theta_).first(values.size()), symbols_.data(),
                            tails_.data(), joined_.data());
  std::memcpy(values.data(), joined_.data(), values.size_bytes());
  for (const auto& [i, value] : odd_) values[i] = value;
  return OkStatus();
}

Status SmallValuesReader::CheckCodes() const {
  for (size_t code = 0; code < kSmallCodes; ++code) {
    if (LengthsFor(counts_[code]) != lengths_[code]) {
      return DataLoss("code {} is not the one for its values", code);
    }
  }
  return OkStatus();
}

}  // namespace pulse
