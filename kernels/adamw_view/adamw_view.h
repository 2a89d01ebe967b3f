// An AdamW step that also casts the new weights to their BF16 view and finds what changed in it, in
// the same pass: a publisher that owns its optimizer needs no scan of its own.
//
//   w, m, v as in adamw.h;  view = BF16(new w);  changed  iff  BF16(old w) != BF16(new w), as bits
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/adamw/adamw.h"

namespace pulse::kernels {

// One block: all spans have equal length n <= 2^20, no overlap, any alignment. The old view is not
// read: it is the cast of the old w. positions must have room for n entries; the first (return
// value) are written, ascending, the rest may be overwritten with anything. Rounding as adamw.h and
// cast_view.h say. Every body gives the same bits as the reference.
using AdamWViewFn = size_t (*)(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                               std::span<float> v, std::span<const float> g,
                               std::span<uint16_t> view, uint32_t* positions);

struct AdamWViewBody {
  std::string_view name;
  AdamWViewFn run;
};

// The reference first, the fastest last.
std::span<const AdamWViewBody> AdamWViewBodies();

}  // namespace pulse::kernels
