// What is minimised, and its gradient: the clipped GRPO loss, and imitation for the warm start.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "trainer/torch/rollout.h"

namespace pulse {

using PerAction = std::array<float, wordle::kActions>;

// Sums over the actions (letters) that were played.
struct GrpoFigures {
  double loss = 0;  // the mean that was minimised
  double actions = 0;
  double clipped = 0;      // actions whose gradient the clipping cut off
  double entropy_sum = 0;  // of the policy's distributions, nats
};

// With r = exp(log-probability under `policy` - log-probability when sampled) and A the advantage,
//
//   loss = - mean over all actions played of min(r A, clamp(r, 1 - clip, 1 + clip) A)
//
// no KL term (Shao et al., "DeepSeekMath", 2024, without the reference model; the mean over all
// tokens of the batch as in Yu et al., "DAPO", 2025). gradient: schema.elements() floats,
// overwritten, in the masters' FP32, straight through the cast to the view.
GrpoFigures GrpoGradient(const Policy& policy, std::span<const Rollout> rollouts,
                         std::span<const PerAction> advantages, double clip,
                         std::span<float> gradient);

// Mean negative log-probability of the actions played, and its gradient.
double ImitationGradient(const Policy& policy, std::span<const wordle::Game> games,
                         std::span<float> gradient);

// Log-probability of each action played, all positions at once (no cache); 0 where not played.
std::vector<PerAction> LogProbs(const Policy& policy, std::span<const wordle::Game> games);

// Scales the gradient to `max_norm` if its Euclidean norm is greater; returns the norm before. A
// gradient that is not finite stays so.
double ClipToNorm(double max_norm, std::span<float> gradient);

}  // namespace pulse
