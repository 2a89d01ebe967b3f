// One element of the fused step, as adamw_view.h writes it.
#pragma once

#include "kernels/adamw/adamw_math.h"
#include "kernels/cast_view/cast_view_math.h"

namespace pulse::kernels {

// Whether the view changed.
PULSE_HOST_DEVICE inline bool AdamWViewElement(const AdamWScalars& k, float& w, float& m, float& v,
                                               float g, uint16_t& view) {
  const uint16_t before = BF16Element(w);
  AdamWElement(k, w, m, v, g);
  view = BF16Element(w);
  return view != before;
}

}  // namespace pulse::kernels
