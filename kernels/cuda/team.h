// Programs that the threads of one CUDA block carry out together on one block of 2^20 elements:
// what the codecs' kernels are made of. A program is a template over its team, and so runs on the
// host too, the same code but for the team itself:
//
//   team.Each(n, f)             f(i) for every i < n, in no particular order
//   team.One(f)                 f() by one thread: what is serial by nature
//   team.Scan(n, value, write)  write(i, value(0) + ... + value(i - 1)); returns the whole sum.
//                               write must not change what value of another index reads
//   team.Max(n, value)          the largest of value(i); 0 for none
//   team.Or(at, bits), team.Add(at, n)   on words that several may change at once
//
// Every call ends with all threads having seen what it wrote. All threads make the same calls, and
// what they branch on between calls is the same for all: arguments, results, and memory written
// before the last call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/arithmetic/canonical.h"
#include "kernels/cuda/tuning.h"

namespace pulse::kernels {

// The team of one. backwards: indices in the other order, so that a program whose result depends on
// the order shows it.
struct HostTeam {
  bool backwards = false;

  template <typename F>
  void Each(uint32_t n, F f) const {
    for (uint32_t i = 0; i < n; ++i) f(backwards ? n - 1 - i : i);
  }
  template <typename F>
  void One(F f) const {
    f();
  }
  template <typename Value, typename Write>
  uint32_t Scan(uint32_t n, Value value, Write write) const {
    constexpr uint32_t kTile = 64;  // of the device: values of a tile are read before it is written
    uint32_t sum = 0, before[kTile];
    for (uint32_t begin = 0; begin < n; begin += kTile) {
      const uint32_t length = std::min(kTile, n - begin);
      for (uint32_t i = 0; i < length; ++i) {
        before[i] = sum;
        sum += value(begin + i);
      }
      Each(length, [&](uint32_t i) { write(begin + i, before[i]); });
    }
    return sum;
  }
  template <typename Value>
  uint32_t Max(uint32_t n, Value value) const {
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; ++i) most = std::max<uint32_t>(most, value(i));
    return most;
  }
  void Or(uint32_t* at, uint32_t bits) const { *at |= bits; }
  void Add(uint32_t* at, uint32_t n) const { *at += n; }
};

// Runs a program on each of `blocks` blocks, as TeamKernel (team.cuh) does. scratch: one team's.
template <typename Program>
void RunTeamsOnHost(const Program& program, uint64_t blocks, uint32_t* scratch,
                    bool backwards = false) {
  for (uint64_t block = 0; block < blocks; ++block) {
    program.Run(HostTeam{backwards}, block, scratch);
  }
}

// Teams that run at once: a launch has no more, and each goes through several blocks.
constexpr uint64_t TeamsFor(uint64_t blocks) {
  return std::min<uint64_t>(blocks, kMaxTeams);
}

// The first index in [begin, end) whose element is not below x, or end. Ascending.
PULSE_HOST_DEVICE inline uint32_t LowerBound(const uint32_t* ascending, uint32_t begin,
                                             uint32_t end, uint32_t x) {
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (ascending[middle] < x) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Puts the lowest `bits` (0 .. 64) of value, which has no others, at bit `at` of words that are
// zero there; least significant first. words null: nothing is written.
template <typename Team>
PULSE_HOST_DEVICE inline void PutBits(const Team& team, uint32_t* words, uint64_t at,
                                      uint64_t value, uint32_t bits) {
  if (words == nullptr || bits == 0) return;
  uint32_t* word = words + at / 32;
  const uint32_t shift = at % 32;
  const uint64_t low = value << shift;
  if (static_cast<uint32_t>(low) != 0) team.Or(word, static_cast<uint32_t>(low));
  if (static_cast<uint32_t>(low >> 32) != 0) team.Or(word + 1, static_cast<uint32_t>(low >> 32));
  if (shift == 0 || shift + bits <= 64) return;
  const auto high = static_cast<uint32_t>(value >> (64 - shift));
  if (high != 0) team.Or(word + 2, high);
}

// Bits of somebody's bytes, least significant first; zeros behind their end.
struct BitCursor {
  const uint8_t* bytes;
  uint64_t size;    // bytes
  uint64_t at = 0;  // in bits

  // The next ones; at least 57 of them count.
  PULSE_HOST_DEVICE uint64_t Peek() const {
    const uint64_t byte = at / 8;
    uint64_t word = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      if (byte + i < size) word |= uint64_t{bytes[byte + i]} << (8 * i);
    }
    return word >> at % 8;
  }
  // bits <= 57
  PULSE_HOST_DEVICE uint64_t Read(uint32_t bits) {
    const uint64_t value = Peek() & ((uint64_t{1} << bits) - 1);
    at += bits;
    return value;
  }
  PULSE_HOST_DEVICE bool IsSpent() const { return at > 8 * size; }
  // All was read, and what fills the last byte is zero.
  PULSE_HOST_DEVICE bool IsAtEnd() const {
    return !IsSpent() && 8 * size - at < 8 && (Peek() & 0xFF) == 0;
  }
};

PULSE_HOST_DEVICE inline uint32_t BitWidth(uint64_t x) {
#ifdef __CUDA_ARCH__
  return 64 - static_cast<uint32_t>(__clzll(static_cast<long long>(x)));
#else
  return x == 0 ? 0 : 64 - static_cast<uint32_t>(__builtin_clzll(x));
#endif
}

// x not 0.
PULSE_HOST_DEVICE inline uint32_t TrailingZeros(uint64_t x) {
#ifdef __CUDA_ARCH__
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(x))) - 1;
#else
  return static_cast<uint32_t>(__builtin_ctzll(x));
#endif
}

}  // namespace pulse::kernels
