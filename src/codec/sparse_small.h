// Codec "small" of sparse updates: coded against theta, which every trainer has.
//
// theta tells a lot. Where it is small, entries are frequent, so positions are ranks among elements
// of like exponent. theta and w lie on FP32 grids, so a value is nearly always a multiple of
// theta's spacing, and the bits of the value below that are not written. And theta's place in its
// BF16 cell says which sign is likely. docs/format.md has the layout.
#pragma once

#include <span>

#include "codec/classes_of_blocks.h"
#include "core/bytes.h"
#include "core/sparse_update.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// The grid of values rounded to 1/2^q of the BF16 spacing at theta (loco's ulp:q): how many bits it
// is coarser than theta's FP32 spacing. q <= 16.
constexpr unsigned CoarserBits(unsigned q) {
  return 16 - q;
}

// coarser: 0, or CoarserBits of what the values were rounded to. Values off that grid are exact all
// the same, but cost more. Not written: both sides must agree on it, as on theta.
//
// `update` must be valid, over theta.size() elements. Any bits in values and theta. The same bytes
// on every machine, for every kernel body. Memory: the result and a block's scratch (16 MiB).
// classes: takes and keeps what is known of theta's blocks; null: nobody asks again.
Bytes EncodeSparseUpdateSmall(const kernels::KernelTable& kernels, const SparseUpdateView& update,
                              std::span<const float> theta, unsigned coarser = 0,
                              ClassesOfBlocks* classes = nullptr);

// kDataLoss for any bytes but those that EncodeSparseUpdateSmall writes for some update against
// this theta. Another theta than the encoder's gives an error or another update: theta is the
// caller's to agree on. Time: O(elements + bytes). Memory: a block's scratch (16 MiB) and 8 bytes
// an entry of the blocks that could be read.
StatusOr<SparseUpdate> DecodeSparseUpdateSmall(const kernels::KernelTable& kernels, ByteView bytes,
                                               std::span<const float> theta, unsigned coarser = 0);

}  // namespace pulse
