#include "kernels/class_rank/class_rank_cuda.h"
#include "kernels/cuda/team.cuh"

namespace pulse::kernels {

DeviceCode ClassRankCuda(const ClassRankOp& op, uint64_t blocks, DeviceSpan<uint32_t> scratch,
                         DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, kClassRankScratch, stream);
}

DeviceCode ClassSelectCuda(const ClassSelectOp& op, uint64_t blocks, DeviceSpan<uint32_t> scratch,
                           DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, kClassRankScratch, stream);
}

}  // namespace pulse::kernels
