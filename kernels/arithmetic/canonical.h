// The one NaN of the arithmetic contract, and the mark of per-element maths that CPU and GPU share.
// Included by .cu files: nothing heavy here.
#pragma once

#include <bit>
#include <cstdint>

// Marks per-element maths that a GPU body shares with the CPU bodies.
#ifdef __CUDACC__
#define PULSE_HOST_DEVICE __host__ __device__
#else
#define PULSE_HOST_DEVICE
#endif

namespace pulse::kernels {

// A NaN that arithmetic makes or passes on is stored as this one. Which operand's payload survives,
// and the sign of Inf - Inf, differ between x86, Arm and CUDA, and with the compiler's choice of
// operand order; this does not.
inline constexpr uint32_t kCanonicalNaN = 0x7FC00000;

// x, or the canonical NaN for any NaN.
PULSE_HOST_DEVICE inline float Canonical(float x) {
  return x != x ? std::bit_cast<float>(kCanonicalNaN) : x;
}

}  // namespace pulse::kernels
