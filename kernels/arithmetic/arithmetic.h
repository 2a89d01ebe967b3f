// The arithmetic contract (docs/design.md), as far as code can hold it: what every kernel body
// agrees on, and a check that the running process keeps it.
#pragma once

#include <bit>
#include <cstdint>

#include "core/status.h"

// Marks per-element maths that a GPU body shares with the CPU bodies.
#ifdef __CUDACC__
#define PULSE_HOST_DEVICE __host__ __device__
#else
#define PULSE_HOST_DEVICE
#endif

namespace pulse::kernels {

// Counts changes of results for equal inputs. Part of the configuration fingerprint.
inline constexpr uint32_t kArithmeticContractVersion = 1;

// A NaN that arithmetic makes or passes on is stored as this one. Which operand's payload survives,
// and the sign of Inf - Inf, differ between x86, Arm and CUDA, and with the compiler's choice of
// operand order; this does not.
inline constexpr uint32_t kCanonicalNaN = 0x7FC00000;

// x, or the canonical NaN for any NaN.
PULSE_HOST_DEVICE inline float Canonical(float x) {
  return x != x ? std::bit_cast<float>(kCanonicalNaN) : x;
}

// OK if the calling thread computes FP32 as the contract says; kFailedPrecondition names what
// breaks it: a flush of denormals (FTZ/DAZ, which -ffast-math in any linked library turns on), a
// rounding mode other than to nearest even, or fused multiply-adds in this file, which is compiled
// with the flags of all kernels. New threads inherit the mode.
Status CheckArithmetic();

}  // namespace pulse::kernels
