// XXH3-128 (seed 0) of a piece of 241 bytes to 1 MiB, cut up for a warp: the chunk digest of
// core/digest.h. After "xxHash fast digest algorithm", XXH3, in the specification of Yann Collet's
// xxHash (github.com/Cyan4973/xxHash, doc/xxhash_spec.md); its long-input branch alone.
//
// XXH3 adds up 16 stripes of 64 bytes and scrambles, block by block of 1,024 bytes; of the last
// block, which is not scrambled, the whole stripes before its last byte, and the 64 bytes up to it.
// The sums are plain 64-bit additions, so the 32 threads of a warp each take 16 bytes of a stripe
// (two of eight lanes), twice a block; only the scrambles form a chain.
#pragma once

#include <cstdint>

#include "kernels/cuda/pack.h"

namespace pulse::kernels {

inline constexpr uint64_t kXxh3ChunkBytes = uint64_t{1} << 20;
inline constexpr uint64_t kXxh3ShortestChunk = 241;  // XXH3 treats shorter pieces in other ways
inline constexpr uint32_t kXxh3BlockBytes = 1024, kXxh3StripeBytes = 64;
inline constexpr uint32_t kXxh3Halves = 2;  // a warp reads half a block at once: 32 * 16 bytes

// How a piece of so many bytes goes.
struct Xxh3Plan {
  uint32_t blocks;   // that are scrambled
  uint32_t stripes;  // behind them, without the last
  uint32_t last;     // where the last stripe begins

  PULSE_HOST_DEVICE explicit Xxh3Plan(uint64_t bytes)
      : blocks(static_cast<uint32_t>((bytes - 1) / kXxh3BlockBytes)),
        stripes(static_cast<uint32_t>((bytes - 1) % kXxh3BlockBytes / kXxh3StripeBytes)),
        last(static_cast<uint32_t>(bytes - kXxh3StripeBytes)) {}
};

// The default secret of XXH3, as little-endian words. Passed to kernels by value.
struct Xxh3Secret {
  uint64_t words[24] = {
      0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
      0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
      0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
      0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
      0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
      0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

  // The word at any byte offset of up to 184.
  PULSE_HOST_DEVICE uint64_t At(uint32_t offset) const {
    const uint64_t low = words[offset / 8];
    const uint32_t shift = offset % 8 * 8;
    return shift == 0 ? low : low >> shift | words[offset / 8 + 1] << (64 - shift);
  }
};

// Two neighbouring lanes of XXH3's eight accumulators.
struct Xxh3Lanes {
  uint64_t acc[2] = {0, 0};

  PULSE_HOST_DEVICE void Add(const Xxh3Lanes& other) {
    acc[0] += other.acc[0];
    acc[1] += other.acc[1];
  }
  // 16 bytes of a stripe, with the secret of their two lanes.
  PULSE_HOST_DEVICE void Accumulate(const Pack<uint64_t, 2>& data, const uint64_t secret[2]) {
    for (int i = 0; i < 2; ++i) {
      const uint64_t keyed = data.x[i] ^ secret[i];
      acc[i ^ 1] += data.x[i];
      acc[i] += (keyed & 0xFFFFFFFF) * (keyed >> 32);
    }
  }
  PULSE_HOST_DEVICE void Scramble(const uint64_t secret[2]) {
    for (int i = 0; i < 2; ++i) acc[i] = (acc[i] ^ acc[i] >> 47 ^ secret[i]) * 0x9E3779B1;
  }
};

// Thread `thread` (0 to 31) of a warp: lanes 2 * pair and 2 * pair + 1 of every eighth stripe.
struct Xxh3Thread {
  uint32_t pair, stripe;
  uint64_t stripe_secret[kXxh3Halves][2], scramble_secret[2], last_secret[2];

  PULSE_HOST_DEVICE Xxh3Thread(const Xxh3Secret& secret, uint32_t thread)
      : pair(thread % 4), stripe(thread / 4) {
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t lane = 2 * pair + i;
      for (uint32_t half = 0; half < kXxh3Halves; ++half) {
        stripe_secret[half][i] = secret.words[8 * half + stripe + lane];
      }
      scramble_secret[i] = secret.words[16 + lane];
      last_secret[i] = secret.At(121 + 8 * lane);
    }
  }

  // What every accumulator starts from.
  PULSE_HOST_DEVICE Xxh3Lanes Start() const {
    constexpr uint64_t kPrime32A = 0x9E3779B1, kPrime32B = 0x85EBCA77, kPrime32C = 0xC2B2AE3D;
    constexpr uint64_t kPrime64C = 0x165667B19E3779F9, kPrime64D = 0x85EBCA77C2B2AE63,
                       kPrime64E = 0x27D4EB2F165667C5;
    switch (pair) {
      case 0:
        return {{kPrime32C, kPrime64A}};
      case 1:
        return {{kPrime64B, kPrime64C}};
      case 2:
        return {{kPrime64D, kPrime32B}};
      default:
        return {{kPrime64E, kPrime32A}};
    }
  }

  // This thread's part of the sums of a block.
  PULSE_HOST_DEVICE Xxh3Lanes Part(const Pack<uint64_t, 2> data[kXxh3Halves]) const {
    Xxh3Lanes part;
    for (uint32_t half = 0; half < kXxh3Halves; ++half) {
      part.Accumulate(data[half], stripe_secret[half]);
    }
    return part;
  }
  // The same of what follows the scrambled blocks of the piece that begins at `piece`. load(at): 16
  // bytes there, where stripes begin; load_last: anywhere.
  template <typename Load, typename LoadLast>
  PULSE_HOST_DEVICE Xxh3Lanes LastPart(const Xxh3Plan& plan, const uint8_t* piece, Load load,
                                       LoadLast load_last) const {
    Xxh3Lanes part;
    for (uint32_t half = 0; half < kXxh3Halves; ++half) {
      const uint32_t s = 8 * half + stripe;
      if (s >= plan.stripes) continue;
      const uint64_t at = uint64_t{plan.blocks} * kXxh3BlockBytes + s * kXxh3StripeBytes;
      part.Accumulate(load(piece + at + 16 * pair), stripe_secret[half]);
    }
    if (stripe == 0) part.Accumulate(load_last(piece + plan.last + 16 * pair), last_secret);
    return part;
  }

  // This pair's part of the low (which = 0) and high half of the digest.
  PULSE_HOST_DEVICE uint64_t Merged(const Xxh3Secret& secret, const Xxh3Lanes& lanes,
                                    int which) const {
    const uint32_t offset = (which == 0 ? 11 : 117) + 16 * pair;
    const uint64_t a = lanes.acc[0] ^ secret.At(offset), b = lanes.acc[1] ^ secret.At(offset + 8);
    return (a * b) ^ HighProduct(a, b);
  }

  // From the sum over the pairs to that half of the digest of so many bytes.
  PULSE_HOST_DEVICE static uint64_t Finished(uint64_t merged, int which, uint64_t bytes) {
    uint64_t h = merged + (which == 0 ? bytes * kPrime64A : ~(bytes * kPrime64B));
    h ^= h >> 37;
    h *= 0x165667919E3779F9;
    return h ^ h >> 32;
  }

 private:
  static constexpr uint64_t kPrime64A = 0x9E3779B185EBCA87, kPrime64B = 0xC2B2AE3D27D4EB4F;

  PULSE_HOST_DEVICE static uint64_t HighProduct(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    // 32-bit halves: ISO C++ has no 128-bit integer.
    const uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), low = a0 * b1 + (middle & 0xFFFFFFFF);
    return a1 * b1 + (middle >> 32) + (low >> 32);
#endif
  }
};

// 16 bytes as two words, where `at` is aligned to the size of Word.
template <typename Word>
PULSE_HOST_DEVICE inline Pack<uint64_t, 2> LoadXxh3Data(const uint8_t* at) {
  constexpr uint32_t kWords = 8 / sizeof(Word);
  Pack<uint64_t, 2> data = {{0, 0}};
  for (uint32_t i = 0; i < 2 * kWords; ++i) {
    const uint64_t word = LoadPack<1>(reinterpret_cast<const Word*>(at) + i).x[0];
    data.x[i / kWords] |= word << (i % kWords * 8 * sizeof(Word) % 64);
  }
  return data;
}

}  // namespace pulse::kernels
