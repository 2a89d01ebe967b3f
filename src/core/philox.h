// The integer function behind core/rng.h (Philox4x32-10: Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011), on its own so that device code can call it.
#pragma once

#include <array>
#include <cstdint>

namespace pulse {

constexpr std::array<uint32_t, 4> PhiloxBlock(std::array<uint32_t, 4> c,
                                              std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

}  // namespace pulse
