// The supervised start: the model imitates the sloppy player before reinforcement learning begins.
#pragma once

#include <functional>

#include "trainer/torch/model.h"
#include "trainer/torch/words.h"

namespace pulse {

struct WarmStartOptions {
  uint32_t steps = 500;
  uint32_t games = 64;            // per step, fresh ones
  double learning_rate = 2.5e-3;  // Adam's at the first step; falls to 0 along half a cosine
  double care = 0.5;              // how often the teacher heeds the marks
  std::function<void(uint64_t step, uint64_t total, double loss)> progress;  // may be empty
};

// Trains `weights` in place with Adam (betas 0.9 and 0.999, no weight decay). Games come from
// streams (seed, kWarmStart, step, game), so the result depends on seed, options and machine alone.
// Throws c10::Error on LibTorch's errors.
void WarmStart(const WarmStartOptions& options, const ModelShape& shape, const ModelSchema& schema,
               Precision precision, const wordle::WordList& words, uint64_t seed,
               std::span<float> weights);

}  // namespace pulse
