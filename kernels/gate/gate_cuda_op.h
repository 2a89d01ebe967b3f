// What one thread of the CUDA body does; the CPU's tests run it too.
#pragma once

#include "kernels/cuda/compact.h"
#include "kernels/gate/gate_math.h"
#include "kernels/gate/rounded_value.h"
#include "kernels/gate/view_runs_op.h"

namespace pulse::kernels {

// The gate of a model: each element by the view of its run, or open for all.
struct GateRunsOp {
  static constexpr int kPack = 4;
  static constexpr uint32_t kExact = ~0u;
  using Item = float;  // what is sent

  DeviceViewRuns runs;
  uint64_t first;    // element of the flat array where theta, w and residual begin
  bool open;         // everything passes, whatever the view
  uint32_t rounded;  // RoundValue's q where the view is BF16, or kExact
  const float* theta;
  const float* w;
  float* residual;
  uint32_t* positions;
  float* values;

  template <int N>
  PULSE_HOST_DEVICE uint32_t Examine(uint64_t at, Item* items) const {
    const Pack<float, N> t = LoadPack<N>(theta + at), x = LoadPack<N>(w + at);
    Pack<float, N> e = LoadPack<N>(residual + at);
    uint32_t kept = 0, run = runs.RunOf(first + at);
    for (int i = 0; i < N; ++i) {
      while (first + at + static_cast<uint64_t>(i) >= runs.ends[run]) ++run;
      const GateView view = runs.ViewOf(run);
      const float s = PseudoGradient(t.x[i], x.x[i], e.x[i]);
      bool visible = open || ViewsDiffer(view, t.x[i], Canonical(t.x[i] - s));
      items[i] = s;
      float rest = 0;
      if (visible && rounded != kExact && view == GateView::kBF16) {
        const RoundedValue value = RoundValue(rounded, t.x[i], s);
        items[i] = value.sent;
        rest = value.rest;
        visible = value.kept;
        if (!visible) {
          e.x[i] = rest;
          continue;
        }
      }
      kept |= static_cast<uint32_t>(visible) << i;
      e.x[i] = visible ? rest : s;
    }
    StorePack(residual + at, e);
    return kept;
  }
  PULSE_HOST_DEVICE void Emit(uint64_t slot, uint32_t position, const Item& value) const {
    positions[slot] = position;
    values[slot] = value;
  }
};

// s = (theta - w) + 0, everything and densely (DiLoCo).
struct PseudoGradientOp {
  const float* theta;
  const float* w;
  float* s;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const Pack<float, N> t = LoadPack<N>(theta + at), x = LoadPack<N>(w + at);
    Pack<float, N> out;
    for (int i = 0; i < N; ++i) out.x[i] = PseudoGradient(t.x[i], x.x[i], 0);
    StorePack(s + at, out);
  }
};

}  // namespace pulse::kernels
