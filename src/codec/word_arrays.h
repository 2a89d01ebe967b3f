// What every codec of word deltas asks of the arrays it is given.
#pragma once

#include <functional>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// kInvalidArgument unless both are the same multiple of word_bytes, which is 1, 2, 4 or 8.
inline Status CheckWordArrays(size_t before_bytes, size_t after_bytes, size_t word_bytes) {
  if (word_bytes != 1 && word_bytes != 2 && word_bytes != 4 && word_bytes != 8) {
    return InvalidArgument("words of {} bytes, expected 1, 2, 4 or 8", word_bytes);
  }
  if (before_bytes != after_bytes || before_bytes % word_bytes != 0) {
    return InvalidArgument("{} bytes before and {} after, expected equal multiples of {}",
                           before_bytes, after_bytes, word_bytes);
  }
  return OkStatus();
}

// kInvalidArgument if the arrays overlap without being the same memory.
inline Status CheckApartOrSame(ByteView before, ByteView after) {
  const std::less<const uint8_t*> less;
  if (before.data() != after.data() && less(before.data(), after.data() + after.size()) &&
      less(after.data(), before.data() + before.size())) {
    return InvalidArgument("before and after overlap, but are not the same memory");
  }
  return OkStatus();
}

}  // namespace pulse
