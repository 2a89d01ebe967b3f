// The entries of one block of a sparse update -> its payload in codec "small".
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
#include "kernels/kernels.h"

namespace pulse {

// Reuse one for many blocks: it holds their scratch.
class SmallBlockEncoder {
 public:
  // coarser: see codec/sparse_small.h.
  SmallBlockEncoder(const kernels::KernelTable& kernels, unsigned coarser)
      : kernels_(kernels), coarser_(coarser) {}

  // The payload of at least one entry; valid until the next Encode. classes: of theta's block.
  ByteView Encode(const ThetaClasses& classes, SparseEntries entries);

 private:
  void WritePositions(const ThetaClasses& classes, std::span<const uint32_t> positions,
                      BitWriter& writer);
  void TakeApart(const ThetaClasses& classes, SparseEntries entries);
  void WriteValues(BitWriter& writer);

  kernels::KernelTable kernels_;
  unsigned coarser_;
  Bytes payload_;
  ClassBitsRoom room_;
  std::vector<uint64_t> chosen_;    // a bit for each element
  std::vector<uint32_t> ranks_;     // of the entries of class 0, then those of class 1, ...
  std::vector<uint32_t> off_grid_;  // entries whose values are not on theta's grid
  std::vector<uint32_t> symbols_;   // of each entry; its code times kPrefixSymbols beside it
  std::vector<uint32_t> plain_;     // see kernels/grid_values
  std::array<PrefixCounts, kSmallCodes> counts_;
  std::array<PrefixEncoder, kSmallCodes> encoders_;
};

}  // namespace pulse
