// Keeping some of n elements, in order: the part of it that needs no device.
//
// A body examines N neighbours at once and says which it keeps, as bits:
//
//   static constexpr int kPack;     elements of a 16-byte access; divides kTileItems
//   using Item = ...;               what it remembers of an element it keeps
//   template <int N> uint32_t Examine(uint64_t at, Item* items) const;   elements [at, at + N)
//   void Emit(uint64_t slot, uint32_t position, const Item& item) const;
//
// Entries of block b of 2^20 elements end up in slots [starts[b], starts[b + 1]), with positions
// relative to the block: the layout of core/sparse_update.h.
#pragma once

#include "device/memory.h"
#include "kernels/cuda/launch_plan.h"
#include "kernels/cuda/pack.h"

namespace pulse::kernels {

// Where a compaction writes, all in device memory.
struct CompactTarget {
  DeviceSpan<uint64_t> starts;  // blocks of 2^20 elements, + 1; the last is the number of entries
  DeviceSpan<uint32_t> positions;  // room for all elements
  DeviceSpan<uint8_t> scratch;  // CompactScratchBytes(n), 16-byte aligned; contents do not matter
};

// The elements of one thread of a tile: kTileItems neighbours, read N at once (1 or Body::kPack).
template <typename Body, int N>
struct ThreadItems {
  static_assert(kTileItems % N == 0);

  typename Body::Item items[kTileItems];
  uint64_t first;
  uint32_t kept;  // bit i: element first + i

  // Returns how many are kept.
  PULSE_HOST_DEVICE uint32_t Examine(const Body& body, const TilePlan& plan, uint32_t tile,
                                     uint32_t thread) {
    first = uint64_t{tile} * kTileElements + uint64_t{thread} * kTileItems;
    kept = 0;
    for (int i = 0; i < kTileItems; i += N) {
      const uint64_t at = first + static_cast<uint64_t>(i);
      if (at + N <= plan.n) {
        kept |= body.template Examine<N>(at, items + i) << i;
      } else if constexpr (N > 1) {
        for (int j = 0; j < N; ++j) {  // the last elements, fewer than N
          if (at + static_cast<uint64_t>(j) >= plan.n) break;
          kept |= body.template Examine<1>(at + static_cast<uint64_t>(j), items + i + j) << (i + j);
        }
      }
    }
    return Count(kept);
  }

  // The kept ones, from `slot` on.
  PULSE_HOST_DEVICE void Emit(const Body& body, uint64_t slot) const {
    const uint32_t position = static_cast<uint32_t>(first % kScatterBlockElements);
    for (int i = 0; i < kTileItems; ++i) {
      if ((kept >> i & 1) != 0) body.Emit(slot++, position + static_cast<uint32_t>(i), items[i]);
    }
  }

  PULSE_HOST_DEVICE static uint32_t Count(uint32_t bits) {
#ifdef __CUDA_ARCH__
    return static_cast<uint32_t>(__popc(bits));
#else
    return static_cast<uint32_t>(__builtin_popcount(bits));
#endif
  }
};

}  // namespace pulse::kernels
