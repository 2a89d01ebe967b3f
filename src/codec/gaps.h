// Ascending positions <-> bytes: the number of elements skipped before each entry, as bytes 255
// (skip 255 and go on) and a last byte below 255. So there is one way to write a gap, nothing to
// overflow, and at the densities of RL updates hardly a byte more than one per entry.
#pragma once

#include <cstdint>
#include <span>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// The most bytes that `entries` positions below `elements` can take. entries <= elements.
constexpr uint64_t MaxGapBytes(uint64_t entries, uint64_t elements) {
  return entries + (elements - entries) / 255;
}

// Replaces `gaps`. positions: strictly ascending.
void EncodeGaps(std::span<const uint32_t> positions, Bytes& gaps);

// Fills `positions`, all of them, strictly ascending and below `elements` (<= 2^20). kDataLoss
// unless `gaps` (at most MaxGapBytes) is what EncodeGaps writes for some such positions; then
// `positions` is unspecified.
Status DecodeGaps(ByteView gaps, uint64_t elements, std::span<uint32_t> positions);

}  // namespace pulse
