// Launches a body of launch_plan.h's RunThread on a stream.
#pragma once

#include <cuda_runtime.h>

#include "device/memory.h"
#include "kernels/cuda/launch_plan.h"
#include "kernels/cuda/pack.h"

namespace pulse::kernels {

// Blocks are at most CUDA's grid; returns the launch's own error, and leaves none behind.
template <typename... Params, typename... Args>
DeviceCode LaunchOn(DeviceStream stream, uint32_t blocks, uint32_t threads,
                    void (*kernel)(Params...), Args... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = static_cast<cudaStream_t>(stream.handle);
  return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

template <int kPack, typename Op>
__global__ void __launch_bounds__(kElementThreads) ElementKernel(Op op, ElementPlan plan) {
  RunThread<kPack>(op, plan, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x);
}

// aligned: all arrays are aligned to kPackBytes. widest: bytes of the widest element.
template <int kPack, typename Op>
DeviceCode LaunchElements(const Op& op, uint64_t n, bool aligned, DeviceStream stream) {
  const ElementPlan plan = PlanElements(n, aligned ? kPack : 1);
  if (plan.blocks == 0) return cudaSuccess;
  return aligned ? LaunchOn(stream, plan.blocks, plan.threads, ElementKernel<kPack, Op>, op, plan)
                 : LaunchOn(stream, plan.blocks, plan.threads, ElementKernel<1, Op>, op, plan);
}

}  // namespace pulse::kernels
