// One block of a sparse update in codec "small" -> its entries.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/bit_stream.h"
#include "codec/class_bits_room.h"
#include "codec/small_values_reader.h"
#include "codec/theta_classes.h"
#include "core/sparse_update.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// Where a block's entries go. Reuse it for many.
struct DecodedBlock {
  std::vector<uint32_t> positions;  // of the entries, and some that are none
  std::vector<float> values;

  SparseEntries entries() const { return {{positions.data(), values.size()}, values}; }
};

// Reuse one for many blocks: it holds their scratch.
class SmallBlockDecoder {
 public:
  // coarser: see codec/sparse_small.h.
  SmallBlockDecoder(const kernels::KernelTable& kernels, unsigned coarser)
      : kernels_(kernels), values_(kernels, coarser) {}

  // entries: what the container says, 1 to as many as theta has elements. classes: of theta's
  // block. kDataLoss for any payload but an encoder's.
  Status Decode(const ThetaClasses& classes, uint32_t entries, ByteView payload,
                DecodedBlock& block);

 private:
  Status ReadCounts(const kernels::ClassCounts& sizes, uint32_t entries);
  Status ReadPositions(const ThetaClasses& classes, DecodedBlock& block);

  kernels::KernelTable kernels_;
  BitReader reader_;
  ClassBitsRoom room_;
  kernels::ClassCounts of_class_ = {};  // entries
  std::vector<uint64_t> chosen_;        // a bit for each element
  SmallValuesReader values_;
};

}  // namespace pulse
