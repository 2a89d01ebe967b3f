#include "codec/sparse_small.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <vector>

#include "codec/bit_stream.h"
#include "codec/container.h"
#include "codec/prefix_code.h"
#include "codec/rank_list.h"
#include "kernels/class_rank/class_rank_math.h"
#include "kernels/sparse_small/grid_value.h"

namespace pulse {
namespace {

using kernels::ClassCounts;
using kernels::kRankClasses;

static_assert(kSparseBlockElements == kContainerBlockElements);
static_assert(kSparseBlockElements == kMaxRankBound);

// Two classes share a code of values: a code of its own for each gains less than its lengths cost.
constexpr size_t kClassesPerCode = 2;
constexpr size_t kCodes = kRankClasses / kClassesPerCode;

size_t CodeOf(uint8_t theta_class) {
  return theta_class / kClassesPerCode;
}

uint32_t BitsOf(float value) {
  return std::bit_cast<uint32_t>(value);
}

// What is reused from block to block, on both sides.
struct Scratch {
  std::vector<kernels::ClassTile> tiles;
  std::vector<kernels::TileCounts> tile_counts;
  uint32_t top = 0;                 // the exponent of class 0
  std::vector<uint8_t> classes;     // of the entries; encoder only
  std::vector<uint32_t> ranks;      // by position
  std::vector<uint32_t> by_class;   // ranks of class 0, then those of class 1, ...
  std::vector<uint32_t> positions;  // decoder only
  std::vector<uint64_t> bitmap;     // decoder only
  std::vector<float> values;        // decoder only
  std::vector<uint32_t> off_grid;   // entries whose values are not on theta's grid
  std::vector<uint16_t> symbols;    // encoder only
  std::array<PrefixCounts, kCodes> counts;
  std::array<PrefixDecoder, kCodes> decoders;  // decoder only

  // Fills `top`, `tiles` and `tile_counts`; returns the elements of each class.
  ClassCounts Classify(const kernels::ClassRankBody& kernel, std::span<const float> theta) {
    top = kernel.largest_exponent(theta);
    tiles.resize(kernels::TilesOf(theta.size()));
    tile_counts.resize(tiles.size());
    kernel.classify(AsBytes(theta), kernels::kFloatLayout, top, tiles, tile_counts);
    return kernels::SumOfCounts(tile_counts);
  }
};

// positions: distinct, below n.
void SortAscending(size_t n, std::span<uint32_t> positions, std::vector<uint64_t>& bitmap) {
  bitmap.assign((n + 63) / 64, 0);
  for (const uint32_t position : positions) bitmap[position / 64] |= uint64_t{1} << position % 64;
  size_t filled = 0;
  for (size_t i = 0; i < bitmap.size(); ++i) {
    for (uint64_t bits = bitmap[i]; bits != 0; bits &= bits - 1) {
      positions[filled++] =
          static_cast<uint32_t>(64 * i) + static_cast<uint32_t>(std::countr_zero(bits));
    }
  }
}

// Where each class's part of `by_class` begins.
ClassCounts StartsOf(const ClassCounts& entries) {
  ClassCounts starts = {};
  std::exclusive_scan(entries.begin(), entries.end(), starts.begin(), 0u);
  return starts;
}

// ---- Encoder

class BlockEncoder {
 public:
  BlockEncoder(const kernels::ClassRankBody& kernel, unsigned coarser)
      : kernel_(kernel), coarser_(coarser) {}

  void Encode(std::span<const float> theta, std::span<const uint32_t> positions,
              std::span<const float> values, Bytes& out) {
    const ClassCounts sizes = s_.Classify(kernel_, theta);
    BitWriter writer(out);
    WritePositions(sizes, positions, writer);
    ReadSymbols(theta, positions, values);
    WriteValues(theta, positions, values, writer);
    writer.Finish();
  }

 private:
  void WritePositions(const ClassCounts& sizes, std::span<const uint32_t> positions,
                      BitWriter& writer) {
    s_.classes.resize(positions.size());
    s_.ranks.resize(positions.size());
    kernel_.rank(s_.tiles, s_.tile_counts, positions, s_.classes.data(), s_.ranks.data());
    ClassCounts entries = {};
    for (const uint8_t c : s_.classes) ++entries[c];
    s_.by_class.resize(positions.size());
    ClassCounts next = StartsOf(entries);
    for (size_t i = 0; i < positions.size(); ++i) {
      s_.by_class[next[s_.classes[i]]++] = s_.ranks[i];
    }
    uint64_t bits = kRankClasses * kMostBits;
    for (size_t c = 0; c < kRankClasses; ++c) bits += MaxRankBits(entries[c], sizes[c]);
    writer.Reserve(bits);
    for (size_t c = 0; c < kRankClasses; ++c) {
      writer.Write(entries[c], static_cast<unsigned>(std::bit_width(sizes[c])));
    }
    const ClassCounts starts = StartsOf(entries);
    for (size_t c = 0; c < kRankClasses; ++c) {
      WriteRanks(std::span(s_.by_class).subspan(starts[c], entries[c]), sizes[c], writer);
    }
  }

  void ReadSymbols(std::span<const float> theta, std::span<const uint32_t> positions,
                   std::span<const float> values) {
    for (PrefixCounts& counts : s_.counts) counts.fill(0);
    s_.symbols.resize(positions.size());
    s_.off_grid.clear();
    for (size_t i = 0; i < positions.size(); ++i) {
      const uint32_t at = BitsOf(theta[positions[i]]), value = BitsOf(values[i]);
      const uint32_t symbol = SymbolOf(at, value);
      s_.symbols[i] = static_cast<uint16_t>(symbol);
      ++s_.counts[CodeOf(s_.classes[i])][symbol];
      if (IsOffGrid(at, value, coarser_)) s_.off_grid.push_back(static_cast<uint32_t>(i));
    }
  }

  void WriteValues(std::span<const float> theta, std::span<const uint32_t> positions,
                   std::span<const float> values, BitWriter& writer) {
    const auto entries = static_cast<uint32_t>(positions.size());
    writer.Reserve(MaxRankBits(s_.off_grid.size(), entries) + kCodes * kMaxLengthsBits +
                   uint64_t{entries} * (kMaxPrefixBits + kPlainMantissaBits) + 2 * kMostBits);
    writer.Write(s_.off_grid.size(), static_cast<unsigned>(std::bit_width(entries)));
    WriteRanks(s_.off_grid, entries, writer);
    std::vector<PrefixEncoder> encoders;
    for (const PrefixCounts& counts : s_.counts) {
      const PrefixLengths lengths = LengthsFor(counts);
      encoders.emplace_back(lengths);
      if (lengths != PrefixLengths{}) WriteLengths(lengths, writer);
    }
    size_t off_grid = 0;
    for (size_t i = 0; i < entries; ++i) {
      const uint32_t position = positions[i];
      const uint32_t symbol = s_.symbols[i];
      unsigned below = BitsBelowGrid(BitsOf(theta[position]), ExponentOfSymbol(symbol), coarser_);
      if (off_grid < s_.off_grid.size() && s_.off_grid[off_grid] == i) {
        below = 0;
        ++off_grid;
      }
      const uint64_t plain = LowBits(BitsOf(values[i]), kPlainMantissaBits) >> below;
      const PrefixEncoder::Code code = encoders[CodeOf(s_.classes[i])].codes[symbol];
      writer.Write(plain << code.length | code.bits, code.length + kPlainMantissaBits - below);
    }
  }

  kernels::ClassRankBody kernel_;
  unsigned coarser_;
  Scratch s_;
};

// ---- Decoder

class BlockDecoder {
 public:
  BlockDecoder(const kernels::ClassRankBody& kernel, unsigned coarser)
      : kernel_(kernel), coarser_(coarser) {}

  Status Decode(std::span<const float> theta, uint32_t entries, ByteView payload) {
    const ClassCounts sizes = s_.Classify(kernel_, theta);
    reader_.Start(payload);
    PULSE_RETURN_IF_ERROR(ReadPositions(sizes, entries));
    PULSE_RETURN_IF_ERROR(ReadOffGrid(entries));
    PULSE_RETURN_IF_ERROR(ReadCodes());
    if (reader_.IsSpent()) return DataLoss("the block ends before its values");
    PULSE_RETURN_IF_ERROR(ReadValues(theta));
    if (!reader_.IsAtEnd()) return DataLoss("the block does not end with its last value");
    for (size_t code = 0; code < kCodes; ++code) {
      if (LengthsFor(s_.counts[code]) != lengths_[code]) {
        return DataLoss("code {} is not the one for its values", code);
      }
    }
    return OkStatus();
  }

  std::span<const uint32_t> positions() const { return s_.positions; }
  std::span<const float> values() const { return s_.values; }

 private:
  Status ReadPositions(const ClassCounts& sizes, uint32_t entries) {
    ClassCounts of_class = {};
    uint64_t sum = 0;
    for (size_t c = 0; c < kRankClasses; ++c) {
      of_class[c] =
          static_cast<uint32_t>(reader_.Read(static_cast<unsigned>(std::bit_width(sizes[c]))));
      if (of_class[c] > sizes[c]) {
        return DataLoss("{} entries among {} elements of class {}", of_class[c], sizes[c], c);
      }
      sum += of_class[c];
    }
    if (sum != entries) return DataLoss("{} entries in classes, expected {}", sum, entries);
    s_.by_class.resize(entries);
    const ClassCounts starts = StartsOf(of_class);
    for (size_t c = 0; c < kRankClasses; ++c) {
      PULSE_RETURN_IF_ERROR(
          ReadRanks(reader_, sizes[c], std::span(s_.by_class).subspan(starts[c], of_class[c])));
    }
    if (reader_.IsSpent()) return DataLoss("the block ends inside its positions");
    s_.positions.resize(entries);
    kernel_.select(s_.tiles, s_.tile_counts, of_class, s_.by_class.data(), s_.positions.data());
    SortAscending(s_.tiles.size() * kernels::kTileWords, s_.positions, s_.bitmap);
    for (size_t code = 0; code < kCodes; ++code) {
      occurs_[code] = false;
      for (size_t c = 0; c < kRankClasses; ++c) {
        if (CodeOf(static_cast<uint8_t>(c)) == code && of_class[c] > 0) occurs_[code] = true;
      }
    }
    return OkStatus();
  }

  Status ReadOffGrid(uint32_t entries) {
    const uint64_t off_grid = reader_.Read(static_cast<unsigned>(std::bit_width(entries)));
    if (off_grid > entries) return DataLoss("{} of {} values off the grid", off_grid, entries);
    s_.off_grid.resize(off_grid);
    return ReadRanks(reader_, entries, s_.off_grid);
  }

  Status ReadCodes() {
    for (size_t code = 0; code < kCodes; ++code) {
      lengths_[code] = {};
      if (!occurs_[code]) continue;
      PULSE_RETURN_IF_ERROR(ReadLengths(reader_, lengths_[code]));
      s_.decoders[code].Build(lengths_[code]);
    }
    return OkStatus();
  }

  Status ReadValues(std::span<const float> theta) {
    for (PrefixCounts& counts : s_.counts) counts.fill(0);
    s_.values.resize(s_.positions.size());
    size_t off_grid = 0;
    for (size_t i = 0; i < s_.values.size(); ++i) {
      const uint32_t position = s_.positions[i];
      const uint32_t at = BitsOf(theta[position]);
      const size_t code = CodeOf(kernels::ClassOf(at, kernels::kFloatLayout, s_.top));
      const uint64_t bits = reader_.Peek();
      unsigned length = 0;
      const uint32_t symbol = s_.decoders[code].Decode(bits, &length);
      ++s_.counts[code][symbol];
      const unsigned below = BitsBelowGrid(at, ExponentOfSymbol(symbol), coarser_);
      const bool is_off = off_grid < s_.off_grid.size() && s_.off_grid[off_grid] == i;
      const unsigned omitted = is_off ? 0 : below;
      const unsigned plain_bits = kPlainMantissaBits - omitted;
      const uint32_t plain = LowBits(static_cast<uint32_t>(bits >> length), plain_bits);
      reader_.Skip(length + plain_bits);
      if (is_off) {
        if (LowBits(plain, below) == 0) return DataLoss("value {} is on the grid", i);
        ++off_grid;
      }
      s_.values[i] = std::bit_cast<float>(ValueOfSymbol(at, symbol) | plain << omitted);
    }
    return OkStatus();
  }

  kernels::ClassRankBody kernel_;
  unsigned coarser_;
  Scratch s_;
  BitReader reader_;
  std::array<bool, kCodes> occurs_ = {};
  std::array<PrefixLengths, kCodes> lengths_ = {};
};

ContainerHeader HeaderFor(uint64_t elements) {
  return {.codec = CodecId::kSparseUpdateSmall, .word_bytes = sizeof(float), .elements = elements};
}

}  // namespace

Bytes EncodeSparseUpdateSmall(const kernels::KernelTable& kernels, const SparseUpdate& update,
                              std::span<const float> theta, unsigned coarser) {
  ContainerWriter writer(HeaderFor(update.elements));
  const auto encoder = std::make_unique<BlockEncoder>(kernels.class_rank, coarser);
  for (size_t b = 0; b < update.blocks(); ++b) {
    const auto positions = update.BlockPositions(b);
    if (!positions.empty()) {
      const uint64_t first = b * kSparseBlockElements;
      const auto block =
          theta.subspan(first, std::min<uint64_t>(kSparseBlockElements, theta.size() - first));
      encoder->Encode(block, positions, update.BlockValues(b), writer.bytes());
    }
    writer.CloseBlock(static_cast<uint32_t>(positions.size()));
  }
  return writer.Finish();
}

StatusOr<SparseUpdate> DecodeSparseUpdateSmall(const kernels::KernelTable& kernels, ByteView bytes,
                                               std::span<const float> theta, unsigned coarser) {
  const auto view = ContainerView::Parse(bytes);
  if (!view.ok()) return Annotate(view.status(), "sparse update");
  PULSE_RETURN_IF_ERROR(Annotate(view->Expect(HeaderFor(theta.size())), "sparse update"));
  SparseUpdate update;
  update.elements = theta.size();
  update.starts.reserve(view->blocks() + 1);
  // An entry takes more than a byte, or nearly nothing where all are alike: then the arrays grow.
  update.positions.reserve(std::min<uint64_t>(view->entries(), bytes.size()));
  update.values.reserve(std::min<uint64_t>(view->entries(), bytes.size()));
  const auto decoder = std::make_unique<BlockDecoder>(kernels.class_rank, coarser);
  for (uint64_t b = 0; b < view->blocks(); ++b) {
    const ContainerView::Block block = view->block(b);
    if (block.entries > 0) {
      const Status decoded =
          decoder->Decode(theta.subspan(block.first, block.elements), block.entries, block.payload);
      if (!decoded.ok()) return Annotate(decoded, fmt::format("sparse update, block {}", b));
      const auto positions = decoder->positions();
      const auto values = decoder->values();
      update.positions.insert(update.positions.end(), positions.begin(), positions.end());
      update.values.insert(update.values.end(), values.begin(), values.end());
    }
    update.starts.push_back(update.positions.size());
  }
  return update;
}

}  // namespace pulse
