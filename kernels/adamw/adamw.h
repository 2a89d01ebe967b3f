// One AdamW step in one pass over w, m, v and g (Loshchilov and Hutter, "Decoupled weight decay
// regularization", ICLR 2019; the order of operations of torch.optim.AdamW).
//
//   w = w * decay
//   m = beta1 * m + one_minus_beta1 * g
//   v = beta2 * v + (one_minus_beta2 * g) * g
//   w = w - step_size * (m / (sqrt(v) / root_correction2 + epsilon))
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pulse::kernels {

struct AdamWOptions {
  double learning_rate = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// The scalars of one step, rounded to FP32 once. `step` counts from 1.
struct AdamWScalars {
  float decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, root_correction2, epsilon;
  // Bias corrections by repeated multiplication in double, so that no libm enters the update path.
  static AdamWScalars At(const AdamWOptions& options, uint64_t step);
};

// Equal lengths, no overlap, any alignment. Every operation rounds as written (no fused
// multiply-add), square root and division are IEEE. A NaN result is stored as the canonical NaN
// (arithmetic.h). Every body gives the same bits as the reference.
using AdamWFn = void (*)(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                         std::span<float> v, std::span<const float> g);

struct AdamWBody {
  std::string_view name;
  AdamWFn run;
};

// The reference first, the fastest last.
std::span<const AdamWBody> AdamWBodies();

}  // namespace pulse::kernels
