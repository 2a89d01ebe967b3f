// Runs of elements whose view has one dtype, as a device sees them.
#pragma once

#include <cstdint>

#include "kernels/arithmetic/canonical.h"
#include "kernels/gate/gate_math.h"

namespace pulse::kernels {

// Run r: elements [ends[r - 1], ends[r]) of the flat array; views[r]: a GateView, kBF16 or kF32.
struct DeviceViewRuns {
  const uint64_t* ends;
  const uint8_t* views;
  uint32_t count;

  // The run of element i, which is below the last end.
  PULSE_HOST_DEVICE uint32_t RunOf(uint64_t i) const {
    uint32_t begin = 0, end = count - 1;
    while (begin < end) {
      const uint32_t middle = begin + (end - begin) / 2;
      if (ends[middle] <= i) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }
  PULSE_HOST_DEVICE GateView ViewOf(uint32_t run) const {
    return static_cast<GateView>(views[run]);
  }
};

// Whether a and b have other views.
PULSE_HOST_DEVICE inline bool ViewsDiffer(GateView view, float a, float b) {
  return view == GateView::kBF16 ? BF16Element(a) != BF16Element(b)
                                 : std::bit_cast<uint32_t>(a) != std::bit_cast<uint32_t>(b);
}

}  // namespace pulse::kernels
