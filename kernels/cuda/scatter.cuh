// Launches work on the entries of a sparse update, block by block.
#pragma once

#include "kernels/cuda/elementwise.cuh"

namespace pulse::kernels {

template <typename Op>
__global__ void __launch_bounds__(kScatterThreads) ScatterKernel(Op op) {
  op.Run(ShareOfScatter(blockIdx.x, threadIdx.x));
}

// blocks: of the sparse update, up to 2^31 / kScatterSplits in one launch: 2^48 elements.
template <typename Op>
DeviceCode LaunchScatter(const Op& op, uint64_t blocks, DeviceStream stream) {
  if (blocks == 0) return cudaSuccess;
  if (blocks > kMaxGridBlocks / kScatterSplits) return cudaErrorInvalidValue;
  return LaunchOn(stream, static_cast<uint32_t>(blocks * kScatterSplits), kScatterThreads,
                  ScatterKernel<Op>, op);
}

}  // namespace pulse::kernels
