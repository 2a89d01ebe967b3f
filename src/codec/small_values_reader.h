// The values of one block of a sparse update in codec "small", behind its positions.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "codec/bit_stream.h"
#include "codec/prefix_code.h"
#include "codec/small_block.h"
#include "codec/theta_classes.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// Reuse one for many blocks: it holds their scratch.
class SmallValuesReader {
 public:
  SmallValuesReader(const kernels::KernelTable& kernels, unsigned coarser)
      : kernels_(kernels), coarser_(coarser) {}

  // of_class: the entries of each class. positions: of all entries, and kListSlack more that are
  // any of theta's. values: as many as there are entries. kDataLoss for any bits but an encoder's,
  // up to the block's end.
  Status Read(const ThetaClasses& classes, const kernels::ClassCounts& of_class,
              std::span<const uint32_t> positions, BitReader& reader, std::span<float> values);

 private:
  // By kMaxPrefixBits bits: symbol, and the bits of its code and its plain part together.
  using Table = std::array<uint16_t, size_t{1} << kMaxPrefixBits>;
  // For thetas of one exponent.
  struct OfExponent {
    const Table* table = nullptr;
    PrefixCounts* counts = nullptr;
  };
  // Entries that are read before their values are put together.
  static constexpr size_t kBatch = 512;

  Status ReadOffGrid(size_t entries, BitReader& reader);
  Status ReadCodes(const kernels::ClassCounts& of_class, BitReader& reader);
  void MakeTables(const kernels::ClassCounts& of_class, uint32_t top);
  size_t ReadQuickly(size_t begin, size_t end, BitReader& reader);
  uint32_t ReadOne(uint32_t theta, uint32_t top, bool is_off, BitReader& reader);
  Status ReadBatch(size_t first, uint32_t top, BitReader& reader, std::span<float> values);
  Status CheckCodes() const;

  kernels::KernelTable kernels_;
  unsigned coarser_;
  std::vector<uint32_t> off_grid_;  // entries whose values are not on theta's grid
  size_t next_off_ = 0;
  std::array<PrefixLengths, kSmallCodes> lengths_ = {};
  std::array<PrefixDecoder, kSmallCodes> decoders_;
  std::array<PrefixCounts, kSmallCodes> counts_;
  std::array<Table, kernels::kRankClasses> tables_;
  std::array<OfExponent, 256> of_exponent_;
  std::array<uint32_t, kBatch> theta_, symbols_, tails_, joined_;
  std::vector<std::pair<size_t, float>> odd_;  // of a batch, those that were read alone
};

}  // namespace pulse
