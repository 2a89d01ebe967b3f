#include "codec/small_block_decoder.h"

#include <algorithm>
#include <bit>

#include "codec/rank_list.h"
#include "kernels/class_rank/class_rank_math.h"
#include "kernels/sparse_small/grid_value.h"

namespace pulse {
namespace {

using kernels::ClassCounts;
using kernels::kRankClasses;

// A symbol and the length of something it tells, in 16 bits.
static_assert(kPrefixSymbols == 1024 && kMaxPrefixBits + kPlainMantissaBits < 64);
constexpr unsigned kSymbolBits = 10;

}  // namespace

Status SmallBlockDecoder::Decode(const ThetaClasses& classes, uint32_t entries, ByteView payload) {
  reader_.Start(payload);
  PULSE_RETURN_IF_ERROR(ReadPositions(classes, entries));
  PULSE_RETURN_IF_ERROR(ReadOffGrid(entries));
  PULSE_RETURN_IF_ERROR(ReadCodes());
  if (reader_.IsSpent()) return DataLoss("the block ends before its values");
  MakeTables(classes.top());
  PULSE_RETURN_IF_ERROR(ReadValues(classes));
  if (!reader_.IsAtEnd()) return DataLoss("the block does not end with its last value");
  return CheckCodes();
}

Status SmallBlockDecoder::ReadPositions(const ThetaClasses& classes, uint32_t entries) {
  const ClassCounts& sizes = classes.sizes();
  uint64_t sum = 0;
  for (size_t c = 0; c < kRankClasses; ++c) {
    of_class_[c] =
        static_cast<uint32_t>(reader_.Read(static_cast<unsigned>(std::bit_width(sizes[c]))));
    if (of_class_[c] > sizes[c]) {
      return DataLoss("{} entries among {} elements of class {}", of_class_[c], sizes[c], c);
    }
    sum += of_class_[c];
  }
  if (sum != entries) return DataLoss("{} entries in classes, expected {}", sum, entries);
  const kernels::ClassBits& bits = room_.ZerosFor(sizes);
  for (size_t c = 0; c < kRankClasses; ++c) {
    PULSE_RETURN_IF_ERROR(ReadRankBits(reader_, sizes[c], of_class_[c], bits[c]));
  }
  if (reader_.IsSpent()) return DataLoss("the block ends inside its positions");
  chosen_.resize(classes.tiles().size() * kernels::kTileGroups);
  kernels_.class_bits.join(classes.tiles(), classes.counts(), bits, chosen_.data());
  positions_.resize(entries + kernels::kListSlack);
  values_.resize(entries);
  kernels_.class_bits.list(chosen_, positions_.data());
  return OkStatus();
}

Status SmallBlockDecoder::ReadOffGrid(uint32_t entries) {
  const uint64_t off_grid = reader_.Read(static_cast<unsigned>(std::bit_width(entries)));
  if (off_grid > entries) return DataLoss("{} of {} values off the grid", off_grid, entries);
  off_grid_.resize(off_grid);
  return ReadRanks(reader_, entries, off_grid_);
}

Status SmallBlockDecoder::ReadCodes() {
  for (size_t code = 0; code < kSmallCodes; ++code) {
    lengths_[code] = {};
    occurs_[code] = of_class_[2 * code] > 0 || of_class_[2 * code + 1] > 0;
    if (!occurs_[code]) continue;
    PULSE_RETURN_IF_ERROR(ReadLengths(reader_, lengths_[code]));
    decoders_[code].Build(lengths_[code]);
  }
  return OkStatus();
}

void SmallBlockDecoder::MakeTables(uint32_t top) {
  // A table takes as long as some hundred values.
  constexpr uint32_t kWorthATable = 1000;
  for (size_t c = 0; c < kRankClasses; ++c) {
    table_of_[c] = nullptr;
    // In the last class there are several exponents.
    if (c + 1 == kRankClasses || of_class_[c] < kWorthATable) continue;
    std::array<uint16_t, kPrefixSymbols> plain_bits;
    const uint32_t theta = (top - static_cast<uint32_t>(c)) << 23;
    for (uint32_t s = 0; s < kPrefixSymbols; ++s) {
      const unsigned below = BitsBelowGrid(theta, ExponentOfSymbol(s), coarser_);
      plain_bits[s] = static_cast<uint16_t>((kPlainMantissaBits - below) << kSymbolBits);
    }
    for (size_t i = 0; i < tables_[c].size(); ++i) {
      const uint16_t entry = decoders_[CodeOf(c)].entry(i);
      tables_[c][i] = static_cast<uint16_t>(entry + plain_bits[entry % kPrefixSymbols]);
    }
    table_of_[c] = &tables_[c];
  }
}

float SmallBlockDecoder::ReadOne(const ThetaClasses& classes, size_t i, bool is_off) {
  const uint32_t at = BitsOf(classes.theta()[positions_[i]]);
  const size_t code = CodeOf(kernels::ClassOf(at, kernels::kFloatLayout, classes.top()));
  const uint64_t bits = reader_.Peek();
  unsigned length = 0;
  const uint32_t symbol = decoders_[code].Decode(bits, &length);
  ++counts_[code][symbol];
  const unsigned below = is_off ? 0 : BitsBelowGrid(at, ExponentOfSymbol(symbol), coarser_);
  const unsigned plain_bits = kPlainMantissaBits - below;
  reader_.Skip(length + plain_bits);
  return std::bit_cast<float>(ValueOfSymbol(at, symbol) |
                              LowBits(static_cast<uint32_t>(bits >> length), plain_bits) << below);
}

// Entries [first, end), all of them on the grid, until one whose class has no table or until the
// payload's end may be near. Returns where it stopped.
size_t SmallBlockDecoder::ReadQuickly(const ThetaClasses& classes, size_t first, size_t end) {
  constexpr uint64_t kMostBytes = 5;  // of a value
  end = std::min<uint64_t>(end, first + reader_.bytes_left() / kMostBytes);
  if (first >= end) return first;
  BitWindow window = reader_.Window();
  const float* const theta = classes.theta().data();
  // A block of theta is larger than a core's cache; so far behind the list is room.
  constexpr size_t kAhead = 32;
  static_assert(kAhead <= kernels::kListSlack);
  size_t i = first;
  for (; i < end; ++i) {
    __builtin_prefetch(theta + positions_[i + kAhead]);
    const uint32_t at = BitsOf(theta[positions_[i]]);
    const size_t c = kernels::ClassOf(at, kernels::kFloatLayout, classes.top());
    const ClassTable* const table = table_of_[c];
    if (table == nullptr) break;
    const uint64_t bits = window.bits();
    const uint16_t entry = (*table)[window.low_bits() % table->size()];
    const uint32_t symbol = entry % kPrefixSymbols;
    const unsigned length = entry >> kSymbolBits;  // with the plain bits
    window.Skip(length);
    ++counts_[CodeOf(c)][symbol];
    const unsigned below = BitsBelowGrid(at, ExponentOfSymbol(symbol), coarser_);
    const unsigned plain_bits = kPlainMantissaBits - below;
    const uint32_t plain =
        LowBits(static_cast<uint32_t>(bits >> (length - plain_bits)), plain_bits);
    values_[i] = std::bit_cast<float>(ValueOfSymbol(at, symbol) | plain << below);
  }
  reader_.MoveTo(window);
  return i;
}

Status SmallBlockDecoder::ReadValues(const ThetaClasses& classes) {
  for (PrefixCounts& counts : counts_) counts.fill(0);
  size_t i = 0;
  const auto read_until = [&](size_t end) {
    while (i < end) {
      i = ReadQuickly(classes, i, end);
      if (i < end) {
        values_[i] = ReadOne(classes, i, false);
        ++i;
      }
    }
  };
  for (const uint32_t off : off_grid_) {
    read_until(off);
    values_[i] = ReadOne(classes, i, true);
    if (!IsOffGrid(BitsOf(classes.theta()[positions_[i]]), BitsOf(values_[i]), coarser_)) {
      return DataLoss("value {} is on the grid", i);
    }
    ++i;
  }
  read_until(values_.size());
  return OkStatus();
}

Status SmallBlockDecoder::CheckCodes() const {
  for (size_t code = 0; code < kSmallCodes; ++code) {
    if (LengthsFor(counts_[code]) != lengths_[code]) {
      return DataLoss("code {} is not the one for its values", code);
    }
  }
  return OkStatus();
}

}  // namespace pulse
