// The encoded updates of several trainers against the same theta, read block by block: what theta
// tells of a block is found out once for all of them, and no update is ever whole in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codec/classes_of_blocks.h"
#include "codec/container.h"
#include "codec/small_block_decoder.h"
#include "codec/sparse_codec.h"
#include "codec/theta_classes.h"
#include "codec/update_codec.h"
#include "core/bytes.h"
#include "core/sparse_update.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// Not thread-safe. Memory: a block's scratch, 8 bytes for each entry of one block of each update,
// and 8 bytes for each block of each update.
class UpdatesReader {
 public:
  // Updates over `elements` elements. theta: as many, or none for codec fast; must outlive this.
  // classes: what is known of theta's blocks, as it must; null: nothing, and nobody else asks.
  UpdatesReader(const kernels::KernelTable& kernels, const UpdateCodec& codec, uint64_t elements,
                std::span<const float> theta, ClassesOfBlocks* classes = nullptr)
      : kernels_(kernels), codec_(codec), elements_(elements), theta_(theta), classes_(classes) {}

  // Checks the layout of one more update. bytes: must outlive this. Returns the update's number, 0,
  // 1, ... kDataLoss.
  StatusOr<size_t> Add(ByteView bytes);

  uint64_t blocks() const { return SparseBlocksFor(elements_); }

  // Block b of an update; valid until the next call for that update. Quickest if all updates are
  // read at one block before the next. kDataLoss for any bytes but an encoder's.
  StatusOr<SparseEntries> Read(size_t update, uint64_t b);

 private:
  Status ReadFast(const ContainerView::Block& block, DecodedBlock& into);
  Status ReadSmall(const ContainerView::Block& block, DecodedBlock& into);

  kernels::KernelTable kernels_;
  UpdateCodec codec_;
  uint64_t elements_;
  std::span<const float> theta_;
  std::vector<ContainerView> updates_;
  std::vector<DecodedBlock> blocks_;  // by update
  std::unique_ptr<FastBlockDecoder> fast_;
  std::unique_ptr<SmallBlockDecoder> small_;
  ClassesOfBlocks* classes_;
  ThetaClasses own_classes_;            // without those
  std::optional<uint64_t> classified_;  // the first element of the block that they are of
};

}  // namespace pulse
