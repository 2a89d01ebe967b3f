// A block's three streams and the sets in them, as docs/format.md has them, for a team of threads;
// the plain twins are codec/block_streams.h and codec/rice_set.h.
#pragma once

#include "kernels/cuda/team.h"

namespace pulse::kernels {

// The low bits of a gap where `members` (1 .. n / 2) of n are coded.
PULSE_HOST_DEVICE inline uint32_t RiceLowBits(uint32_t n, uint32_t members) {
  const uint64_t target = uint64_t{31537} * (2 * uint64_t{n} - members);
  uint32_t k = 0;
  while ((uint64_t{members} << (17 + k)) < target) ++k;
  return k;
}

PULSE_HOST_DEVICE inline uint32_t NumberBytes(uint32_t number) {
  uint32_t bytes = 1;
  for (; number >= 0x80; number >>= 7) ++bytes;
  return bytes;
}

// Where the next bits of each stream go. words null: they are only counted.
template <typename Team>
struct StreamPlaces {
  const Team& team;
  uint32_t* words;
  uint64_t numbers_at = 0, raw_at = 0, unary_at = 0;

  PULSE_HOST_DEVICE void PutNumber(uint32_t number) {
    team.One([&] { PutNumberAt(number, numbers_at); });
    numbers_at += 8 * NumberBytes(number);
  }
  // By one thread.
  PULSE_HOST_DEVICE void PutNumberAt(uint32_t number, uint64_t at) const {
    for (; number >= 0x80; number >>= 7, at += 8) {
      PutBits(team, words, at, (number & 0x7F) | 0x80, 8);
    }
    PutBits(team, words, at, number, 8);
  }

  // members: `count` ascending numbers below n. rest: scratch of as many words.
  PULSE_HOST_DEVICE void PutSet(uint32_t n, const uint32_t* members, uint32_t count,
                                uint32_t* rest) {
    if (count == 0 || count == n) return;
    const uint32_t* listed = members;
    uint32_t number = count;
    if (count > n - count) {
      team.Each(count + 1, [&](uint32_t i) {
        const uint32_t end = i < count ? members[i] : n;
        for (uint32_t v = i == 0 ? 0 : members[i - 1] + 1; v < end; ++v) rest[v - i] = v;
      });
      listed = rest;
      number = n - count;
    }
    const uint32_t k = RiceLowBits(n, number);
    const auto gap_of = [&](uint32_t i) { return listed[i] - (i == 0 ? 0 : listed[i - 1] + 1); };
    const uint32_t unary_bits = team.Scan(
        number, [&](uint32_t i) { return (gap_of(i) >> k) + 1; },
        [&](uint32_t i, uint32_t before) {
          const uint32_t gap = gap_of(i);
          PutBits(team, words, raw_at + uint64_t{i} * k, gap & ((1u << k) - 1), k);
          PutBits(team, words, unary_at + before + (gap >> k), 1, 1);
        });
    raw_at += uint64_t{number} * k;
    unary_at += unary_bits;
  }
};

// The streams of somebody's payload, for one thread. What a call can't read it answers with false;
// then nothing more may be read.
struct StreamCursors {
  const uint8_t* numbers = nullptr;
  uint32_t numbers_left = 0;
  BitCursor raw{}, unary{};

  PULSE_HOST_DEVICE bool Open(const uint8_t* payload, uint32_t bytes) {
    numbers = payload;
    numbers_left = bytes;
    uint32_t number_bytes = 0, raw_bytes = 0;
    if (!TakeNumber(&number_bytes) || !TakeNumber(&raw_bytes)) return false;
    if (uint64_t{number_bytes} + raw_bytes > numbers_left) return false;
    raw = {numbers + number_bytes, raw_bytes};
    unary = {numbers + number_bytes + raw_bytes, numbers_left - number_bytes - raw_bytes};
    numbers_left = number_bytes;
    return true;
  }
  PULSE_HOST_DEVICE bool GetNumber(uint32_t most, uint32_t* number) {
    return TakeNumber(number) && *number <= most;
  }
  PULSE_HOST_DEVICE bool HasRaw(uint64_t bits) const { return bits <= 8 * raw.size - raw.at; }
  PULSE_HOST_DEVICE bool IsAtEnd() const {
    return numbers_left == 0 && raw.IsAtEnd() && unary.IsAtEnd();
  }

  // Fills `members`, `count` of them, at most n. rest: scratch of as many words.
  PULSE_HOST_DEVICE bool GetSet(uint32_t n, uint32_t* members, uint32_t count, uint32_t* rest) {
    if (count == 0) return true;
    if (count <= n - count) return GetGaps(n, members, count);
    if (!GetGaps(n, rest, n - count)) return false;
    uint32_t filled = 0, next = 0;
    for (uint32_t i = 0; i <= n - count; ++i) {
      const uint32_t end = i < n - count ? rest[i] : n;
      for (; next < end; ++next) members[filled++] = next;
      ++next;
    }
    return true;
  }

 private:
  PULSE_HOST_DEVICE bool TakeNumber(uint32_t* number) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < numbers_left && i < 5; ++i) {
      value |= uint64_t{numbers[i] & 0x7Fu} << (7 * i);
      if (numbers[i] >= 0x80) continue;
      if ((i > 0 && numbers[i] == 0) || value > 0xFFFFFFFF) return false;
      numbers += i + 1;
      numbers_left -= i + 1;
      *number = static_cast<uint32_t>(value);
      return true;
    }
    return false;
  }
  // The zeros before the next one; false if there is none, or more than `limit` of them.
  PULSE_HOST_DEVICE bool GetCount(uint32_t limit, uint32_t* count) {
    constexpr uint32_t kPeeked = 57;
    uint64_t zeros = 0;
    while (true) {
      if (unary.at >= 8 * unary.size || zeros > limit) return false;
      const uint64_t bits = unary.Peek() & ((uint64_t{1} << kPeeked) - 1);
      if (bits != 0) {
        const uint32_t here = TrailingZeros(bits);
        zeros += here;
        unary.at += here + 1;
        *count = static_cast<uint32_t>(zeros);
        return zeros <= limit;
      }
      zeros += kPeeked;
      unary.at += kPeeked;
    }
  }
  PULSE_HOST_DEVICE bool GetGaps(uint32_t n, uint32_t* members, uint32_t count) {
    if (count == 0) return true;
    const uint32_t k = RiceLowBits(n, count);
    if (!HasRaw(uint64_t{count} * k)) return false;
    uint64_t next = 0;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t high = 0;
      if (!GetCount(n >> k, &high)) return false;
      next += uint64_t{high} << k | raw.Read(k);
      if (next >= n) return false;
      members[i] = static_cast<uint32_t>(next++);
    }
    return true;
  }
};

}  // namespace pulse::kernels
