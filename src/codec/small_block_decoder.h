// One block of a sparse update in codec "small" -> its entries.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codec/bit_stream.h"
#include "codec/class_bits_room.h"
#include "codec/prefix_code.h"
#include "codec/small_block.h"
#include "codec/theta_classes.h"
#include "core/sparse_update.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// Reuse one for many blocks: it holds their scratch.
class SmallBlockDecoder {
 public:
  // coarser: see codec/sparse_small.h.
  SmallBlockDecoder(const kernels::KernelTable& kernels, unsigned coarser)
      : kernels_(kernels), coarser_(coarser) {}

  // entries: what the container says, 1 to as many as theta has elements. classes: of theta's
  // block. kDataLoss for any payload but an encoder's.
  Status Decode(const ThetaClasses& classes, uint32_t entries, ByteView payload);

  // Of the last Decode that went well; valid until the next.
  SparseEntries entries() const { return {positions(), values_}; }

 private:
  // By kMaxPrefixBits bits: symbol, and bits of its code and its plain part together.
  using ClassTable = std::array<uint16_t, size_t{1} << kMaxPrefixBits>;

  std::span<const uint32_t> positions() const { return {positions_.data(), values_.size()}; }
  Status ReadPositions(const ThetaClasses& classes, uint32_t entries);
  Status ReadOffGrid(uint32_t entries);
  Status ReadCodes();
  void MakeTables(uint32_t top);
  Status ReadValues(const ThetaClasses& classes);
  size_t ReadQuickly(const ThetaClasses& classes, size_t first, size_t end);
  float ReadOne(const ThetaClasses& classes, size_t i, bool is_off);
  Status CheckCodes() const;

  kernels::KernelTable kernels_;
  unsigned coarser_;
  BitReader reader_;
  ClassBitsRoom room_;
  kernels::ClassCounts of_class_ = {};
  std::vector<uint64_t> chosen_;     // a bit for each element
  std::vector<uint32_t> positions_;  // with room behind them
  std::vector<uint32_t> off_grid_;   // entries whose values are not on theta's grid
  std::vector<float> values_;
  std::array<PrefixLengths, kSmallCodes> lengths_ = {};
  std::array<PrefixDecoder, kSmallCodes> decoders_;
  std::array<PrefixCounts, kSmallCodes> counts_;
  std::array<bool, kSmallCodes> occurs_ = {};
  std::array<ClassTable, kernels::kRankClasses> tables_;
  std::array<const ClassTable*, kernels::kRankClasses> table_of_ = {};  // null: none was made
};

}  // namespace pulse
