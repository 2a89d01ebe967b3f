#include "codec/small_block_decoder.h"

#include <algorithm>
#include <bit>

#include "codec/rank_list.h"

namespace pulse {

using kernels::ClassCounts;
using kernels::kRankClasses;

Status SmallBlockDecoder::Decode(const ThetaClasses& classes, uint32_t entries, ByteView payload,
                                 DecodedBlock& block) {
  reader_.Start(payload);
  PULSE_RETURN_IF_ERROR(ReadCounts(classes.sizes(), entries));
  block.positions.resize(entries + kernels::kListSlack);
  block.values.resize(entries);
  PULSE_RETURN_IF_ERROR(ReadPositions(classes, block));
  return values_.Read(classes, of_class_, block.positions, reader_, block.values);
}

Status SmallBlockDecoder::ReadCounts(const ClassCounts& sizes, uint32_t entries) {
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
  return OkStatus();
}

Status SmallBlockDecoder::ReadPositions(const ThetaClasses& classes, DecodedBlock& block) {
  const ClassCounts& sizes = classes.sizes();
  const kernels::ClassBits& bits = room_.ZerosFor(sizes);
  for (size_t c = 0; c < kRankClasses; ++c) {
    PULSE_RETURN_IF_ERROR(ReadRankBits(reader_, sizes[c], of_class_[c], bits[c]));
  }
  if (reader_.IsSpent()) return DataLoss("the block ends inside its positions");
  chosen_.resize(classes.tiles().size() * kernels::kTileGroups);
  kernels_.class_bits.join(classes.tiles(), classes.counts(), bits, chosen_.data());
  kernels_.class_bits.list(chosen_, block.positions.data());
  std::fill_n(block.positions.end() - kernels::kListSlack, kernels::kListSlack, 0u);
  return OkStatus();
}

}  // namespace pulse
