// FP32 master weights -> the BF16 view.
//
//   out = in rounded to BF16, to nearest even; a NaN keeps its sign and upper
//   payload and becomes quiet
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pulse::kernels {

// Equal lengths, no overlap, any alignment. Denormals are rounded like other values, never flushed;
// overflow goes to infinity. Every body gives the same bits as the reference.
using CastToBF16Fn = void (*)(std::span<const float> in, std::span<uint16_t> out);

struct CastToBF16Body {
  std::string_view name;
  CastToBF16Fn run;
};

// The reference first, the fastest last.
std::span<const CastToBF16Body> CastToBF16Bodies();

}  // namespace pulse::kernels
