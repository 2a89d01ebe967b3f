// What the device's encoders and decoders of blocks have in common.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/status.h"

namespace pulse {

// The most entries of a block, from where each block's begin.
inline uint64_t MostEntries(std::span<const uint64_t> starts) {
  uint64_t most = 0;
  for (size_t b = 0; b + 1 < starts.size(); ++b) most = std::max(most, starts[b + 1] - starts[b]);
  return most;
}

// Where each of the sizes begins when they lie one behind the other, and where the last ends.
template <typename Size>
std::vector<uint64_t> OffsetsOf(std::span<const Size> sizes) {
  std::vector<uint64_t> offsets = {0};
  offsets.reserve(sizes.size() + 1);
  for (const Size size : sizes) offsets.push_back(offsets.back() + size);
  return offsets;
}

// kDataLoss that names the first block with an error.
inline Status CheckBlocks(std::span<const uint32_t> errors, std::string_view what) {
  for (size_t b = 0; b < errors.size(); ++b) {
    if (errors[b] == 0) continue;
    return DataLoss("{}, block {}: no encoder writes these bytes (the device's reason {})", what, b,
                    errors[b]);
  }
  return OkStatus();
}

}  // namespace pulse
