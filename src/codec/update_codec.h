// Which bytes a sparse update takes between trainers: the choice of codec as a value.
#pragma once

#include <span>
#include <string_view>

#include "codec/classes_of_blocks.h"
#include "codec/container.h"
#include "core/bytes.h"
#include "core/sparse_update.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// fast: gaps and raw FP32 under zstd. small: against theta, about two thirds of that.
enum class UpdateCodecName { kFast, kSmall };

std::string_view NameOf(UpdateCodecName name);  // "fast", "small"
// kInvalidArgument lists the names there are.
StatusOr<UpdateCodecName> UpdateCodecFromName(std::string_view name);

// A codec with what it must be told beside the update. A value; equal on both sides.
struct UpdateCodec {
  UpdateCodecName name = UpdateCodecName::kFast;
  unsigned coarser = 0;  // small only: see codec/sparse_small.h

  friend bool operator==(const UpdateCodec&, const UpdateCodec&) = default;

  // What an update over so many elements begins with.
  ContainerHeader HeaderFor(uint64_t elements) const;

  // update: valid. theta: as many elements; fast does not look at it, and it may be empty. classes:
  // see codec/sparse_small.h.
  Bytes Encode(const kernels::KernelTable& kernels, const SparseUpdateView& update,
               std::span<const float> theta, ClassesOfBlocks* classes = nullptr) const;

  // kDataLoss for any bytes but an encoder's, for an update over `elements` elements.
  StatusOr<SparseUpdate> Decode(const kernels::KernelTable& kernels, ByteView bytes,
                                uint64_t elements, std::span<const float> theta) const;
};

}  // namespace pulse
