#include "kernels/cuda/compact.cuh"
#include "kernels/diff/diff_cuda.h"
#include "kernels/diff/diff_cuda_op.h"

namespace pulse::kernels {
namespace {

template <typename Word>
DeviceCode Diff(DeviceSpan<const uint8_t> before, DeviceSpan<const uint8_t> after,
                const CompactTarget& target, DeviceStream stream) {
  if (before.size != after.size || before.size % sizeof(Word) != 0) return cudaErrorInvalidValue;
  const DiffOp<Word> op{reinterpret_cast<const Word*>(before.data),
                        reinterpret_cast<const Word*>(after.data), target.positions.data};
  return LaunchCompact(op, before.size / sizeof(Word), AllAligned(before.data, after.data), target,
                       stream);
}

}  // namespace

DeviceCode DiffCuda(DeviceSpan<const uint8_t> before, DeviceSpan<const uint8_t> after,
                    uint32_t word_bytes, const CompactTarget& target, DeviceStream stream) {
  switch (word_bytes) {
    case 2:
      return Diff<uint16_t>(before, after, target, stream);
    case 4:
      return Diff<uint32_t>(before, after, target, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace pulse::kernels
