#include "kernels/cuda/team.cuh"
#include "kernels/word_steps/word_steps_cuda.h"

namespace pulse::kernels {

DeviceCode WordStepsEncodeCuda(const WordStepsEncodeOp<uint16_t>& op, uint64_t blocks,
                               DeviceStream stream) {
  return LaunchTeams(op, blocks, {}, 0, stream);
}

DeviceCode WordStepsEncodeCuda(const WordStepsEncodeOp<uint32_t>& op, uint64_t blocks,
                               DeviceStream stream) {
  return LaunchTeams(op, blocks, {}, 0, stream);
}

DeviceCode SparseFastEncodeCuda(const SparseFastEncodeOp& op, uint64_t blocks,
                                DeviceStream stream) {
  return LaunchTeams(op, blocks, {}, 0, stream);
}

DeviceCode WordStepsApplyCuda(const WordStepsApplyOp<uint16_t>& op, uint64_t blocks,
                              uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                              DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, GapsScratch(most_entries), stream);
}

DeviceCode WordStepsApplyCuda(const WordStepsApplyOp<uint32_t>& op, uint64_t blocks,
                              uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                              DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, GapsScratch(most_entries), stream);
}

DeviceCode SparseFastDecodeCuda(const SparseFastDecodeOp& op, uint64_t blocks,
                                uint64_t most_entries, DeviceSpan<uint32_t> scratch,
                                DeviceStream stream) {
  return LaunchTeams(op, blocks, scratch, GapsScratch(most_entries), stream);
}

}  // namespace pulse::kernels
