// The codecs of a range's changes by name: fast (codec/word_delta.h) and small
// (codec/small_delta.h).
#pragma once

#include "codec/small_delta.h"
#include "codec/word_delta.h"
#include "core/bytes.h"
#include "core/dtype.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "sync/patch.h"

namespace pulse {

// codec: kFast or kSmall. The arrays are words of one type.
inline StatusOr<WordDelta> EncodeRange(const kernels::KernelTable& kernels, RangeCodec codec,
                                       ByteView before, ByteView after, DType dtype) {
  return codec == RangeCodec::kSmall ? EncodeSmallDelta(kernels, before, after, dtype)
                                     : EncodeWordDelta(kernels, before, after, SizeOf(dtype));
}

// In place. kDataLoss; then `words` is unspecified.
inline Status ApplyRange(const kernels::KernelTable& kernels, RangeCodec codec, ByteView delta,
                         DType dtype, ByteSpan words) {
  return codec == RangeCodec::kSmall ? ApplySmallDelta(kernels, delta, words, dtype, words)
                                     : ApplyWordDelta(kernels, delta, words, SizeOf(dtype), words);
}

}  // namespace pulse
