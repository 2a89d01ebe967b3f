// Launches a compaction: one pass over the elements, each tile of which finds its place in the
// output by looking back at its predecessors (Merrill and Garland, "Single-pass parallel prefix
// scan with decoupled look-back", 2016), by CUB's parts for that. The order of entries is that of
// elements.
#pragma once

#include <cub/agent/single_pass_scan_operators.cuh>
#include <cub/block/block_scan.cuh>

#include "kernels/cuda/compact.h"
#include "kernels/cuda/elementwise.cuh"

namespace pulse::kernels {

using TileState = cub::ScanTileState<uint64_t>;
// What CompactScratchBytes counts with.
static_assert(sizeof(TileState::TxnWord) == 16 && int{TileState::TILE_STATUS_PADDING} == 32);
static_assert(kScatterBlockElements % kTileElements == 0, "a tile lies in one block");

struct AddCounts {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

// Every thread of the grid initialises the state of one tile; the first warp also the padding.
template <typename State>
__global__ void __launch_bounds__(kTileThreads) InitTiles(State state, uint32_t tiles) {
  state.InitializeStatus(static_cast<int>(tiles));
}

template <int N, typename Body>
__global__ void __launch_bounds__(kTileThreads)
    CompactKernel(Body body, TilePlan plan, TileState state, uint64_t* starts) {
  using Scan = cub::BlockScan<uint32_t, kTileThreads>;
  using LookBack = cub::TilePrefixCallbackOp<uint64_t, AddCounts, TileState>;
  __shared__ typename Scan::TempStorage scan;
  __shared__ typename LookBack::TempStorage look_back;
  __shared__ uint64_t tile_begin;

  ThreadItems<Body, N> items;
  const uint32_t tile = blockIdx.x;
  uint32_t offset = 0, total = 0;
  Scan(scan).ExclusiveSum(items.Examine(body, plan, tile, threadIdx.x), offset, total);
  // The first warp finds where the tile begins.
  if (tile == 0) {
    if (threadIdx.x == 0) {
      state.SetInclusive(0, total);
      tile_begin = 0;
    }
  } else if (threadIdx.x < 32) {
    LookBack prefix(state, look_back, AddCounts{}, static_cast<int>(tile));
    const uint64_t begin = prefix(total);
    if (threadIdx.x == 0) tile_begin = begin;
  }
  __syncthreads();
  items.Emit(body, tile_begin + offset);
  if (threadIdx.x == 0) {
    constexpr uint32_t kTilesPerBlock = kScatterBlockElements / kTileElements;
    if (tile % kTilesPerBlock == 0) starts[tile / kTilesPerBlock] = tile_begin;
    if (tile + 1 == plan.tiles) starts[tile / kTilesPerBlock + 1] = tile_begin + total;
  }
}

// kPack: elements of one access where `aligned` (all arrays at multiples of kPackBytes).
template <typename Body>
DeviceCode LaunchCompact(const Body& body, uint64_t n, bool aligned, const CompactTarget& target,
                         DeviceStream stream) {
  if (n > kMaxCompactElements || target.starts.size != CeilDiv(n, kScatterBlockElements) + 1 ||
      target.positions.size < n || target.scratch.size < CompactScratchBytes(n) ||
      !AllAligned(target.scratch.data)) {
    return cudaErrorInvalidValue;
  }
  if (n == 0) {
    return cudaMemsetAsync(target.starts.data, 0, sizeof(uint64_t),
                           static_cast<cudaStream_t>(stream.handle));
  }
  const TilePlan plan = PlanTiles(n);
  TileState state;
  state.Init(static_cast<int>(plan.tiles), target.scratch.data, target.scratch.size);
  const DeviceCode code = LaunchOn(stream, static_cast<uint32_t>(CeilDiv(plan.tiles, kTileThreads)),
                                   kTileThreads, InitTiles<TileState>, state, plan.tiles);
  if (code != cudaSuccess) return code;
  return aligned ? LaunchOn(stream, plan.tiles, kTileThreads, CompactKernel<Body::kPack, Body>,
                            body, plan, state, target.starts.data)
                 : LaunchOn(stream, plan.tiles, kTileThreads, CompactKernel<1, Body>, body, plan,
                            state, target.starts.data);
}

}  // namespace pulse::kernels
