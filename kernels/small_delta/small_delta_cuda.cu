#include "kernels/cuda/team.cuh"
#include "kernels/small_delta/small_delta_cuda.h"

namespace pulse::kernels {

DeviceCode SmallDeltaEncodeCuda(const SmallDeltaEncodeOp<uint16_t>& op, uint64_t blocks,
                                uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, SmallDeltaScratch(most_entries), stream);
}

DeviceCode SmallDeltaEncodeCuda(const SmallDeltaEncodeOp<uint32_t>& op, uint64_t blocks,
                                uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, SmallDeltaScratch(most_entries), stream);
}

DeviceCode SmallDeltaApplyCuda(const SmallDeltaApplyOp<uint16_t>& op, uint64_t blocks,
                               uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                               DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, SmallDeltaScratch(most_entries), stream);
}

DeviceCode SmallDeltaApplyCuda(const SmallDeltaApplyOp<uint32_t>& op, uint64_t blocks,
                               uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                               DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, SmallDeltaScratch(most_entries), stream);
}

}  // namespace pulse::kernels
