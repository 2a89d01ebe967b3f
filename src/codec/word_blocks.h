// What every codec of word deltas has in common: what it asks of the arrays it is given, and the
// way through their blocks.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "codec/container.h"
#include "codec/word_delta.h"
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

// The arrays as blocks of `codec`. make_encoder(block words): an encoder whose Encode(before,
// after, out) appends the payload of one block and returns its entries. what: for messages.
template <typename MakeEncoder>
StatusOr<WordDelta> EncodeWordBlocks(CodecId codec, std::string_view what, ByteView before,
                                     ByteView after, size_t word_bytes, MakeEncoder make_encoder) {
  PULSE_RETURN_IF_ERROR(Annotate(CheckWordArrays(before.size(), after.size(), word_bytes), what));
  const size_t words = before.size() / word_bytes;
  ContainerWriter writer(
      {.codec = codec, .word_bytes = static_cast<uint8_t>(word_bytes), .elements = words});
  auto encoder = make_encoder(std::min<size_t>(words, kContainerBlockElements));
  uint64_t total = 0;
  const size_t block_bytes = kContainerBlockElements * word_bytes;
  for (size_t at = 0; at < before.size(); at += block_bytes) {
    const size_t length = std::min(block_bytes, before.size() - at);
    const uint32_t changed =
        encoder.Encode(before.subspan(at, length), after.subspan(at, length), writer.bytes());
    writer.CloseBlock(changed);
    total += changed;
  }
  return WordDelta{.bytes = writer.Finish(), .changed = total};
}

// The inverse. applier.Apply(block, words) moves one block's words, in place.
template <typename Applier>
Status ApplyWordBlocks(CodecId codec, std::string_view what, ByteView delta, ByteView before,
                       size_t word_bytes, ByteSpan after, Applier applier) {
  PULSE_RETURN_IF_ERROR(Annotate(CheckWordArrays(before.size(), after.size(), word_bytes), what));
  PULSE_RETURN_IF_ERROR(Annotate(CheckApartOrSame(before, after), what));
  auto view = ContainerView::Parse(delta);
  if (!view.ok()) return Annotate(view.status(), what);
  PULSE_RETURN_IF_ERROR(Annotate(view->Expect({.codec = codec,
                                               .word_bytes = static_cast<uint8_t>(word_bytes),
                                               .elements = before.size() / word_bytes}),
                                 what));
  for (uint64_t b = 0; b < view->blocks(); ++b) {
    const ContainerView::Block block = view->block(b);
    const size_t at = block.first * word_bytes;
    const ByteSpan words = after.subspan(at, block.elements * word_bytes);
    if (words.data() != before.data() + at) {
      std::memcpy(words.data(), before.data() + at, words.size());
    }
    const Status applied = applier.Apply(block, words);
    if (!applied.ok()) return Annotate(applied, fmt::format("{}, block {}", what, b));
  }
  return OkStatus();
}

}  // namespace pulse
