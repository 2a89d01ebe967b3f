// Runs what CUDA threads do on the host, one after the other: the same code but for CUDA's own
// indices, scan and look-back. For tests.
#pragma once

#include "kernels/cuda/compact.h"
#include "kernels/cuda/launch_plan.h"

namespace pulse::kernels {

template <int kPack, typename Op>
void RunElementsOnHost(const Op& op, const ElementPlan& plan) {
  for (uint64_t thread = 0; thread < uint64_t{plan.blocks} * plan.threads; ++thread) {
    RunThread<kPack>(op, plan, thread);
  }
}

template <typename Op>
void RunScatterOnHost(const Op& op, uint64_t blocks) {
  for (uint64_t block = 0; block < blocks * kScatterSplits; ++block) {
    for (uint32_t thread = 0; thread < kScatterThreads; ++thread) {
      op.Run(ShareOfScatter(block, thread));
    }
  }
}

// starts: blocks of 2^20 elements, + 1.
template <int N, typename Body>
void RunCompactOnHost(const Body& body, uint64_t n, uint64_t* starts) {
  const TilePlan plan = PlanTiles(n);
  uint64_t slot = 0;
  starts[0] = 0;
  for (uint32_t tile = 0; tile < plan.tiles; ++tile) {
    if (tile % (kScatterBlockElements / kTileElements) == 0) {
      starts[tile / (kScatterBlockElements / kTileElements)] = slot;
    }
    for (uint32_t thread = 0; thread < kTileThreads; ++thread) {
      ThreadItems<Body, N> items;
      const uint32_t count = items.Examine(body, plan, tile, thread);
      items.Emit(body, slot);
      slot += count;
    }
  }
  starts[CeilDiv(n, kScatterBlockElements)] = slot;
}

}  // namespace pulse::kernels
