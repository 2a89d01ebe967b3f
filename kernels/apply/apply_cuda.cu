#include "kernels/apply/apply_cuda.h"
#include "kernels/apply/apply_cuda_op.h"
#include "kernels/cuda/scatter.cuh"

namespace pulse::kernels {
namespace {

template <typename Word>
DeviceCode Apply(DeviceSpan<uint8_t> words, DeviceSpan<const uint64_t> starts,
                 DeviceSpan<const uint32_t> positions, DeviceSpan<const uint8_t> steps,
                 DeviceStream stream) {
  if (words.size % sizeof(Word) != 0 || steps.size != positions.size * sizeof(Word) ||
      starts.size != CeilDiv(words.size / sizeof(Word), kScatterBlockElements) + 1) {
    return cudaErrorInvalidValue;
  }
  const ApplyOp<Word> op{reinterpret_cast<Word*>(words.data), starts.data, positions.data,
                         reinterpret_cast<const Word*>(steps.data)};
  return LaunchScatter(op, starts.size - 1, stream);
}

}  // namespace

DeviceCode ApplyCuda(DeviceSpan<uint8_t> words, uint32_t word_bytes,
                     DeviceSpan<const uint64_t> starts, DeviceSpan<const uint32_t> positions,
                     DeviceSpan<const uint8_t> steps, DeviceStream stream) {
  switch (word_bytes) {
    case 2:
      return Apply<uint16_t>(words, starts, positions, steps, stream);
    case 4:
      return Apply<uint32_t>(words, starts, positions, steps, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace pulse::kernels
