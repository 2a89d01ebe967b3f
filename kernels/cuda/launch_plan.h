// How many blocks a kernel is launched with, and which elements each thread gets: pure functions,
// tested without a device. Counts of elements are 64-bit throughout.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/arithmetic/canonical.h"
#include "kernels/cuda/tuning.h"

namespace pulse::kernels {

inline constexpr uint64_t kMaxGridBlocks = (uint64_t{1} << 31) - 1;  // CUDA's limit for grid.x

constexpr uint64_t CeilDiv(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// A loop over n elements in packs, by all threads in turns, then the rest one by one.
struct ElementPlan {
  uint64_t n = 0;
  uint32_t threads = 0;  // per block
  uint32_t blocks = 0;   // 0: nothing to launch
};

// pack: elements moved at once.
constexpr ElementPlan PlanElements(uint64_t n, uint64_t pack, uint32_t threads = kElementThreads,
                                   uint32_t packs_per_thread = kPacksPerThread) {
  const uint64_t work = uint64_t{threads} * packs_per_thread;
  const uint64_t blocks = CeilDiv(CeilDiv(n, pack), work);
  return {n, threads, static_cast<uint32_t>(std::min(blocks, kMaxGridBlocks))};
}

// What thread `thread` of the whole grid does; op.Run<N>(at) works on elements [at, at + N).
// kPack <= 32, so that the grid has a thread for each element of the rest.
template <int kPack, typename Op>
PULSE_HOST_DEVICE inline void RunThread(const Op& op, const ElementPlan& plan, uint64_t thread) {
  const uint64_t packs = plan.n / kPack;
  const uint64_t threads = uint64_t{plan.blocks} * plan.threads;
  for (uint64_t i = thread; i < packs; i += threads) op.template Run<kPack>(i * kPack);
  if constexpr (kPack > 1) {
    const uint64_t rest = packs * kPack + thread;
    if (rest < plan.n) op.template Run<1>(rest);
  }
}

// A compaction of n elements in tiles of threads * items; thread t of a tile has `items`
// neighbours.
struct TilePlan {
  uint64_t n = 0;
  uint32_t tiles = 0;
};

inline constexpr uint64_t kTileElements = uint64_t{kTileThreads} * kTileItems;
inline constexpr uint64_t kMaxTiles = uint64_t{1} << 30;  // tile numbers are ints in CUB
inline constexpr uint64_t kMaxCompactElements = kMaxTiles * kTileElements;  // 2^41

// n at most kMaxCompactElements.
constexpr TilePlan PlanTiles(uint64_t n) {
  return {n, static_cast<uint32_t>(CeilDiv(n, kTileElements))};
}

// What a compaction needs for its look-back: 16 bytes a tile, and a warp of padding in front.
constexpr uint64_t CompactScratchBytes(uint64_t n) {
  return n == 0 ? 0 : (CeilDiv(n, kTileElements) + 32) * 16;
}

// Elements per block of a sparse update (kSparseBlockElements of core/sparse_update.h, which .cu
// files do not include; launch_plan_test.cc compares them).
inline constexpr uint64_t kScatterBlockElements = uint64_t{1} << 20;

// The entries of one block of a sparse update that a thread works on: first, first + step, ...
struct ScatterShare {
  uint64_t block, first, step;
};
// cuda_block < blocks * splits; thread < threads.
constexpr ScatterShare ShareOfScatter(uint64_t cuda_block, uint32_t thread,
                                      uint32_t threads = kScatterThreads,
                                      uint32_t splits = kScatterSplits) {
  return {cuda_block / splits, (cuda_block % splits) * threads + thread,
          uint64_t{threads} * splits};
}

}  // namespace pulse::kernels
