// Questions about whole arrays that a training loop asks, and what one thread does about them; the
// CPU's tests run it too. Answers are counts that threads add to.
#pragma once

#include "kernels/cuda/launch_plan.h"
#include "kernels/cuda/pack.h"
#include "kernels/gate/view_runs_op.h"
#include "kernels/outer_step/outer_step_math.h"

namespace pulse::kernels {

// Adds to a count that several threads add to.
PULSE_HOST_DEVICE inline void AddToCount(uint64_t* count, uint32_t n) {
  if (n == 0) return;
#ifdef __CUDA_ARCH__
  atomicAdd(reinterpret_cast<unsigned long long*>(count), static_cast<unsigned long long>(n));
#else
  *count += n;
#endif
}

// How many |x| are not below bound, a positive normal number; a NaN is not.
struct CountUnboundedOp {
  const float* x;
  float bound;
  uint64_t* count;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const Pack<float, N> pack = LoadPack<N>(x + at);
    const uint32_t limit = std::bit_cast<uint32_t>(bound);
    uint32_t unbounded = 0;
    for (int i = 0; i < N; ++i) {
      unbounded += (std::bit_cast<uint32_t>(pack.x[i]) & 0x7FFFFFFF) >= limit ? 1 : 0;
    }
    AddToCount(count, unbounded);
  }
};

// How many elements have other bits than +0.
struct CountNonZeroOp {
  const float* x;
  uint64_t* count;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const Pack<float, N> pack = LoadPack<N>(x + at);
    uint32_t nonzero = 0;
    for (int i = 0; i < N; ++i) nonzero += std::bit_cast<uint32_t>(pack.x[i]) != 0 ? 1 : 0;
    AddToCount(count, nonzero);
  }
};

// How many elements of two arrays have other views.
struct CountViewChangesOp {
  DeviceViewRuns runs;
  const float* before;
  const float* after;
  uint64_t* count;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const Pack<float, N> a = LoadPack<N>(before + at), b = LoadPack<N>(after + at);
    uint32_t changed = 0, run = runs.RunOf(at);
    for (int i = 0; i < N; ++i) {
      while (at + static_cast<uint64_t>(i) >= runs.ends[run]) ++run;
      changed += ViewsDiffer(runs.ViewOf(run), a.x[i], b.x[i]) ? 1 : 0;
    }
    AddToCount(count, changed);
  }
};

// The outer step, and how many elements of theta's view it changed.
struct OuterStepViewOp {
  DeviceViewRuns runs;
  OuterScalars scalars;
  const float* sum;
  float* momentum;
  float* theta;
  uint64_t* count;

  template <int N>
  PULSE_HOST_DEVICE void Run(uint64_t at) const {
    const Pack<float, N> s = LoadPack<N>(sum + at);
    Pack<float, N> b = LoadPack<N>(momentum + at), t = LoadPack<N>(theta + at);
    uint32_t changed = 0, run = runs.RunOf(at);
    for (int i = 0; i < N; ++i) {
      while (at + static_cast<uint64_t>(i) >= runs.ends[run]) ++run;
      const float before = t.x[i];
      OuterStepElement(scalars, s.x[i], b.x[i], t.x[i]);
      changed += ViewsDiffer(runs.ViewOf(run), before, t.x[i]) ? 1 : 0;
    }
    StorePack(momentum + at, b);
    StorePack(theta + at, t);
    AddToCount(count, changed);
  }
};

}  // namespace pulse::kernels
