#include "kernels/cuda/team.cuh"
#include "kernels/sparse_small/sparse_small_cuda.h"

namespace pulse::kernels {

DeviceCode SparseSmallEncodeCuda(const SparseSmallEncodeOp& op, uint64_t blocks,
                                 uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                 DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, SparseSmallScratch(most_entries), stream);
}

DeviceCode SparseSmallDecodeCuda(const SparseSmallDecodeOp& op, uint64_t blocks,
                                 uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                 DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, SparseSmallScratch(most_entries), stream);
}

}  // namespace pulse::kernels
