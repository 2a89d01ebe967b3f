// Plays games with a policy: batched sampling with a cache of keys and values.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/rng.h"
#include "trainer/torch/model.h"
#include "trainer/torch/tokens.h"

namespace pulse {

// A finished game and, per action, the log-probability with which it was sampled (0 where not
// played).
struct Rollout {
  wordle::Game game;
  std::array<float, wordle::kActions> log_probs = {};
};

// Weights with what it takes to read them; the spans and the schema must outlive it.
struct Policy {
  const ModelShape& shape;
  const ModelSchema& schema;
  Precision precision = Precision::kBF16;
  std::span<const float> weights;
};

// Plays `games` (dealt, not begun) to their ends, all in one batch; game i draws 5 numbers a turn
// from streams[i], whatever the other games do. Weights that are not finite play nonsense, but end.
// Throws c10::Error on LibTorch's errors.
std::vector<Rollout> PlayGames(const Policy& policy, const wordle::WordList& words,
                               std::vector<wordle::Game> games, std::vector<Rng> streams);

}  // namespace pulse
