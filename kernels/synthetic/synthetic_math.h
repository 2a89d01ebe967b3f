// One number of the synthetic trainer (src/trainer/synthetic.h), drawn by hashing: integers and
// exact products, so the same bits on the host and on a device.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "kernels/arithmetic/canonical.h"

namespace pulse::kernels {

// Numbers hashed under one key: a stream of core/rng.h gives the key, a cheap integer hash (which
// the compiler vectorises) the elements. Small enough to stay in L1 beside the gradient's chunk.
inline constexpr uint64_t kSyntheticChunk = uint64_t{1} << 12;

struct SyntheticKey {
  uint32_t add;
  uint32_t flip;
};

// The first two draws of Rng(seed, {use, trainer, step, chunk}). 32 bits of chunk number repeat
// after 2^44 weights, which no machine holds.
PULSE_HOST_DEVICE inline SyntheticKey SyntheticKeyOf(uint64_t seed, uint8_t use, uint32_t trainer,
                                                     uint32_t step, uint64_t chunk) {
  const std::array<uint32_t, 4> drawn = PhiloxBlock(
      {0, static_cast<uint32_t>(chunk), step, uint32_t{use} << 24 | (trainer & 0xFFFFFF)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {drawn[0], drawn[1]};
}

// Wellons' lowbias32: a bijection whose output bits each depend on all input bits.
PULSE_HOST_DEVICE inline uint32_t SyntheticHash(uint32_t index, SyntheticKey key) {
  uint32_t x = (index + key.add) ^ key.flip;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

// In (-1, 1), triangular around 0, a multiple of 2^-16.
PULSE_HOST_DEVICE inline float SyntheticNoise(uint32_t hash) {
  const int32_t sum = static_cast<int32_t>(hash & 0xFFFF) + static_cast<int32_t>(hash >> 16);
  return static_cast<float>(sum - 65535) * 0x1p-16f;
}

struct NoiseShape {
  float along;            // scale * signal
  float across;           // scale * (1 - signal)
  uint32_t active_below;  // of 2^31
};

PULSE_HOST_DEVICE inline float NoiseElement(const NoiseShape& shape, SyntheticKey key,
                                            SyntheticKey fixed_key, uint32_t i) {
  const uint32_t fixed = SyntheticHash(i, fixed_key);
  const float direction = static_cast<float>(static_cast<int32_t>(fixed & 1) * 2 - 1);
  const float active = static_cast<float>((fixed >> 1) < shape.active_below ? 1 : 0);
  return active * (shape.along * direction + shape.across * SyntheticNoise(SyntheticHash(i, key)));
}

// A multiple of `scale`, -7 .. 7 times.
PULSE_HOST_DEVICE inline float ExactElement(float scale, SyntheticKey key, uint32_t i) {
  const uint32_t hash = SyntheticHash(i, key);
  return scale *
         static_cast<float>(static_cast<int32_t>(hash & 7) - static_cast<int32_t>((hash >> 3) & 7));
}

// Roles rotate over trainers and weights: +big, small, -big. FP32 spacing at big = 2^13 is 2^-10
// and small lies in [2^-11, 2^-10), so big swallows or distorts a small that is added to it before
// -big.
PULSE_HOST_DEVICE inline float CancellingElement(float scale, uint32_t first_role, SyntheticKey key,
                                                 SyntheticKey fixed_key, uint32_t i) {
  constexpr float kBig = 0x1p13f;
  const uint32_t role = (first_role + (((SyntheticHash(i, fixed_key) >> 16) * 3) >> 16)) % 3;
  const float small = 0x1p-11f + static_cast<float>(SyntheticHash(i, key) >> 9) * 0x1p-34f;
  return scale * (role == 0 ? kBig : role == 1 ? small : -kBig);
}

}  // namespace pulse::kernels
