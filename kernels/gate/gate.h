// The visibility gate: which entries of a pseudo-gradient would the next forward pass see?
//
//   s = (theta - w) + residual
//   visible  iff  bits(view(theta)) != bits(view(theta - s))
//   visible: emit (position, s), residual = 0        held: residual = s
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pulse::kernels {

// Which test lets an entry pass. kBF16 and kF32 compare views of that dtype; kOpen lets everything
// pass, zeros included (DiLoCo).
enum class GateView { kBF16, kF32, kOpen };

// One block: theta, w and residual have equal length n <= 2^20 and no overlap; none need be
// aligned. positions and values must have room for n entries; the first (return value) are written,
// ascending, the rest may be overwritten with anything. residual is updated in place. Rounding:
// FP32 subtraction and addition as written, round to nearest even; the BF16 view as cast_view
// defines it. A NaN s, and a NaN theta - s, is the canonical NaN (arithmetic.h); it is visible if
// it changes the bits, like any other value. Every body gives the same bits as the reference.
using GateFn = size_t (*)(GateView view, std::span<const float> theta, std::span<const float> w,
                          std::span<float> residual, uint32_t* positions, float* values);

struct GateBody {
  std::string_view name;
  GateFn run;
};

// The reference first, the fastest last.
std::span<const GateBody> GateBodies();

}  // namespace pulse::kernels
