// Counter-based randomness (Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A stream is a pure function of its name, so there is no generator state to
// save: a resumed run draws what the unbroken one would have drawn. Integer arithmetic only, so
// the same bits on every machine.
#pragma once

#include <array>
#include <cstdint>

namespace pulse {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What a stream is for. A new use takes a new number; numbers are never reused.
enum class RngUse : uint8_t {
  kInit = 0,
  kWarmStart = 1,
  kTask = 2,
  kPolicy = 3,
  kSynthetic = 4,
  kEval = 5,
  kTest = 255,
};

// The name of a stream. step counts local steps over the whole run.
struct RngStream {
  RngUse use = RngUse::kTest;
  uint32_t trainer = 0;  // below 2^24
  uint32_t step = 0;
  uint32_t sample = 0;
};

// Draws in order from one stream; copies are independent. Not thread-safe.
class Rng {
 public:
  Rng(uint64_t seed, RngStream stream);

  uint32_t U32();
  uint32_t Below(uint32_t bound);  // uniform in [0, bound), bound > 0, without modulo bias
  float Uniform();                 // [0, 1), multiples of 2^-24
  // Mean 0, variance 1, bounded by +-6: the centred sum of twelve 16-bit uniforms (Irwin-Hall).
  // Not quite Gaussian in the tails, but exact in FP32 and free of libm.
  float Normal();

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_ = {};
  int used_ = 4;
};

}  // namespace pulse
