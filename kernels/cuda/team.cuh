// A CUDA block as the team of team.h.
#pragma once

#include <cub/block/block_scan.cuh>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/team.h"

namespace pulse::kernels {

struct DeviceTeam {
  using BlockScan = cub::BlockScan<uint32_t, kTeamThreads>;
  struct Shared {
    typename BlockScan::TempStorage scan;
    uint32_t word;
  };

  Shared* shared;

  template <typename F>
  __device__ void Each(uint32_t n, F f) const {
    for (uint32_t i = threadIdx.x; i < n; i += kTeamThreads) f(i);
    __syncthreads();
  }
  template <typename F>
  __device__ void One(F f) const {
    if (threadIdx.x == 0) f();
    __syncthreads();
  }
  template <typename Value, typename Write>
  __device__ uint32_t Scan(uint32_t n, Value value, Write write) const {
    uint32_t sum = 0;
    for (uint32_t begin = 0; begin < n; begin += kTeamThreads) {
      const uint32_t i = begin + threadIdx.x;
      uint32_t before = 0;
      const uint32_t total = SumOfTile(i < n ? value(i) : 0, before);
      if (i < n) write(i, sum + before);
      sum += total;
      __syncthreads();
    }
    return sum;
  }
  template <typename Value>
  __device__ uint32_t Max(uint32_t n, Value value) const {
    if (threadIdx.x == 0) shared->word = 0;
    uint32_t most = 0;
    for (uint32_t i = threadIdx.x; i < n; i += kTeamThreads) most = max(most, uint32_t{value(i)});
    most = __reduce_max_sync(0xFFFFFFFF, most);
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicMax(&shared->word, most);
    __syncthreads();
    most = shared->word;
    __syncthreads();
    return most;
  }
  __device__ void Or(uint32_t* at, uint32_t bits) const { atomicOr(at, bits); }
  __device__ void Add(uint32_t* at, uint32_t n) const { atomicAdd(at, n); }

 private:
  // One copy of its code, whatever the number of calls.
  __device__ __noinline__ uint32_t SumOfTile(uint32_t mine, uint32_t& before) const {
    uint32_t total = 0;
    BlockScan(shared->scan).ExclusiveSum(mine, before, total);
    __syncthreads();
    return total;
  }
};

template <typename Program>
__global__ void __launch_bounds__(kTeamThreads)
    TeamKernel(Program program, uint64_t blocks, uint32_t* scratch, uint64_t scratch_words) {
  __shared__ DeviceTeam::Shared shared;
  const DeviceTeam team{&shared};
  for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    program.Run(team, block, scratch + blockIdx.x * scratch_words);
    __syncthreads();
  }
}

// scratch_words: of one team; scratch: as many for each of TeamsFor(blocks).
template <typename Program>
DeviceCode LaunchTeams(const Program& program, uint64_t blocks, DeviceSpan<uint32_t> scratch,
                       uint64_t scratch_words, DeviceStream stream) {
  if (blocks == 0) return cudaSuccess;
  const uint64_t teams = TeamsFor(blocks);
  if (scratch.size < teams * scratch_words) return cudaErrorInvalidValue;
  return LaunchOn(stream, static_cast<uint32_t>(teams), kTeamThreads, TeamKernel<Program>, program,
                  blocks, scratch.data, scratch_words);
}

}  // namespace pulse::kernels
