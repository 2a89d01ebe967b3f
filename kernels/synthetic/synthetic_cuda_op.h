// The synthetic trainer's gradient: what one thread does; the CPU's tests run it too.
#pragma once

#include <bit>

#include "kernels/cuda/launch_plan.h"
#include "kernels/cuda/pack.h"
#include "kernels/synthetic/synthetic_math.h"

namespace pulse::kernels {

struct SyntheticGradientOp {
  enum class Data : uint32_t { kNoise, kExact, kCancelling };

  Data data;
  NoiseShape shape;
  float scale;
  uint64_t seed;
  uint8_t use, fixed_use;  // RngUse of the step's keys, and of those that stay
  uint32_t trainer, step, fixed_step;
  uint64_t first_chunk;  // of the micro-batch
  uint32_t first_role;   // kCancelling
  bool non_finite;       // the first element an infinity, the last a NaN
  uint64_t elements;     // of the whole gradient
  uint64_t begin, n;     // of them, `gradient` is [begin, begin + n)
  float* gradient;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const uint64_t first = begin + at;
    SyntheticKey key = KeyOf(first), fixed = FixedKeyOf(first);
    Pack<float, N> g;
    for (int j = 0; j < N; ++j) {
      const auto i = static_cast<uint32_t>((first + static_cast<uint64_t>(j)) % kSyntheticChunk);
      if (j > 0 && i == 0) {  // where a range begins anywhere, a pack may lie in two chunks
        key = KeyOf(first + static_cast<uint64_t>(j));
        fixed = FixedKeyOf(first + static_cast<uint64_t>(j));
      }
      g.x[j] = data == Data::kNoise   ? NoiseElement(shape, key, fixed, i)
               : data == Data::kExact ? ExactElement(scale, key, i)
                                      : CancellingElement(scale, first_role, key, fixed, i);
    }
    if (non_finite && first == 0) g.x[0] = std::bit_cast<float>(0x7F800000u);
    if (non_finite && first + N == elements) g.x[N - 1] = std::bit_cast<float>(0x7FC00000u);
    StorePack(gradient + at, g);
  }

  // Of the chunk that holds the element.
  PULSE_HOST_DEVICE SyntheticKey KeyOf(uint64_t element) const {
    return SyntheticKeyOf(seed, use, trainer, step, element / kSyntheticChunk + first_chunk);
  }
  PULSE_HOST_DEVICE SyntheticKey FixedKeyOf(uint64_t element) const {
    if (data == Data::kExact) return {};
    return SyntheticKeyOf(seed, fixed_use, 0, fixed_step, element / kSyntheticChunk);
  }
};

}  // namespace pulse::kernels
