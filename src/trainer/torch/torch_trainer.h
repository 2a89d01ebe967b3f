// The built-in trainer: a small decoder-only transformer that learns Wordle with GRPO, on LibTorch.
//
// Game: `word_count` words are secrets and legal guesses alike. The environment plays a random
// opening word, then the policy has three guesses of five letter tokens each (wordle.h, tokens.h).
// Training and evaluation use the same words: what is measured is how well the policy plays, not
// whether it generalises to other words. Evaluation games come from random streams of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/status.h"
#include "trainer/trainer.h"

namespace pulse {

struct TorchTrainerOptions {
  uint64_t seed = 1;
  // Threads of LibTorch in every call. The model is too small to gain from a second, and OpenMP's
  // threads spin while they wait: on busy cores two threads were 25 times slower than one.
  uint32_t threads = 1;

  // The game.
  std::string words = "/usr/share/dict/american-english";  // Debian: wamerican. One word a line
  uint32_t word_count = 128;                               // chosen as words.h says

  // The model: 417,536 weights as it stands.
  uint32_t layers = 2;
  uint32_t width = 128;  // a multiple of `heads`
  uint32_t heads = 4;
  // In what activations are computed; the weights are BF16 views in any case. "bf16"; "fp32", which
  // wants a fast BLAS (Debian: libopenblas0-serial; the reference BLAS is 20 times slower); or
  // "auto": bf16 where the CPU has BF16 instructions, without which it is slower still, else fp32.
  std::string compute = "auto";

  // InitialWeights: supervised imitation of a player who heeds the marks with probability
  // `warm_start_care`, else plays any word.
  uint32_t warm_start_steps = 500;
  uint32_t warm_start_games = 64;            // per step
  double warm_start_learning_rate = 2.5e-3;  // Adam's, falling to 0 along half a cosine
  double warm_start_care = 0.5;
  uint32_t warm_start_threads = 1;
  // Called after every step, on the calling thread; `loss` is in nats per letter. May be empty.
  std::function<void(uint64_t step, uint64_t total, double loss)> warm_start_progress;

  // Gradient: `groups` secrets with an opening each, `group_games` games of each.
  uint32_t groups = 4;
  uint32_t group_games = 8;
  double clip = 0.2;               // of the probability ratio
  double max_gradient_norm = 1.0;  // the gradient is scaled down to it
};

// Gradient's metrics: reward_sum, games, wins, valid_guesses, guesses; tokens (letters that the
// policy wrote), and over them entropy_sum (nats) and ratio_clipped (tokens whose gradient the clip
// cut off); steps (1), and over them loss_sum, gradient_norm_sum (before clipping) and
// gradient_clipped. Evaluate's metrics: the first five, of sampled play (greedy play misleads: it
// leaves out the policy's doubts). `samples` are games.
//
// Randomness: games of a step come from (seed, kTask, trainer, step, group) and the policy's
// choices from (seed, kPolicy, trainer, step, game); evaluation game i from (the evaluation's seed,
// kEval, step 0 for the deal and 1 for the choices, i). No call leaves state behind that another
// could see: same arguments, same bits, in any order of calls, on one machine with one number of
// threads.
//
// Evaluate sees only the view, so weights that come from a BF16 view give what their masters gave.
//
// The process: sets LibTorch's threads and deterministic mode and malloc's thresholds (runtime.h).
// kInvalidArgument names an option out of range; kNotFound: no word list.
StatusOr<std::unique_ptr<Trainer>> MakeTorchTrainer(TorchTrainerOptions options);

}  // namespace pulse
