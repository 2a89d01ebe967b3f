// The change of one array of words (a tensor, or a range of one) <-> bytes: codec "small".
//
// Positions by the exponent of the old word, values as signed steps by the same classes, in
// independent blocks of kWordDeltaBlockElements words. docs/format.md has the layout.
#pragma once

#include <cstdint>

#include "codec/word_delta.h"
#include "core/bytes.h"
#include "core/dtype.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse {

// before, after: equal lengths, a multiple of the type's size: else kInvalidArgument. The same
// input gives the same bytes on every machine and body. Memory: the result and one block's scratch.
StatusOr<WordDelta> EncodeSmallDelta(const kernels::KernelTable& kernels, ByteView before,
                                     ByteView after, DType dtype);

// Rebuilds `after` from `before` and the encoded bytes, into `after` (same length as `before`; may
// be the same memory). kDataLoss for any bytes that EncodeSmallDelta doesn't write for this
// `before`; then `after` is unspecified. Another `before` may decode to anything: the digests of
// the payload file tell.
Status ApplySmallDelta(const kernels::KernelTable& kernels, ByteView delta, ByteView before,
                       DType dtype, ByteSpan after);

}  // namespace pulse
