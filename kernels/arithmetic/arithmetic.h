// The arithmetic contract (docs/design.md), as far as code can hold it: what every kernel body
// agrees on, and a check that the running process keeps it.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "kernels/arithmetic/canonical.h"

namespace pulse::kernels {

// Counts changes of results for equal inputs. Part of the configuration fingerprint.
inline constexpr uint32_t kArithmeticContractVersion = 1;

// OK if the calling thread computes FP32 as the contract says; kFailedPrecondition names what
// breaks it: a flush of denormals (FTZ/DAZ, which -ffast-math in any linked library turns on), a
// rounding mode other than to nearest even, or fused multiply-adds in this file, which is compiled
// with the flags of all kernels. New threads inherit the mode.
Status CheckArithmetic();

}  // namespace pulse::kernels
