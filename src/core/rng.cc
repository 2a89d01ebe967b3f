#include "core/rng.h"

#include <cstddef>

#include "core/philox.h"

namespace pulse {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  return PhiloxBlock(counter, key);
}

Rng::Rng(uint64_t seed, RngStream stream)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      counter_{0, stream.sample, stream.step,
               (static_cast<uint32_t>(stream.use) << 24) | (stream.trainer & 0xFFFFFF)} {}

uint32_t Rng::U32() {
  if (used_ == 4) {
    block_ = Philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

uint32_t Rng::Below(uint32_t bound) {
  // Lemire's rejection: the low word below `threshold` would favour small results.
  const uint32_t threshold = (0u - bound) % bound;
  while (true) {
    const uint64_t product = uint64_t{U32()} * bound;
    if (static_cast<uint32_t>(product) >= threshold) return static_cast<uint32_t>(product >> 32);
  }
}

float Rng::Uniform() {
  return static_cast<float>(U32() >> 8) * 0x1p-24f;
}

float Rng::Normal() {
  int32_t sum = 0;
  for (int i = 0; i < 6; ++i) {
    const uint32_t word = U32();
    sum += static_cast<int32_t>(word & 0xFFFF) + static_cast<int32_t>(word >> 16);
  }
  // Twelve uniforms on {0, ..., 65535}: mean 12 * 32767.5, variance 65536^2 up to 2^-32.
  return static_cast<float>(sum - 6 * 65535) * 0x1p-16f;
}

}  // namespace pulse
