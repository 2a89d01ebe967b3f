#include "trainer/torch/warm_start.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "trainer/torch/objective.h"
#include "trainer/torch/sloppy_player.h"

namespace pulse {
namespace {

// Adam (Kingma and Ba, 2015). The trainer's own, since its module knows no kernels; only the warm
// start uses it, and no promise of equal bits across machines hangs on it.
class Adam {
 public:
  explicit Adam(size_t elements) : mean_(elements), square_(elements) {}

  void Step(double learning_rate, std::span<const float> gradient, std::span<float> weights) {
    ++step_;
    const double correction1 = 1 - std::pow(kBeta1, step_),
                 correction2 = 1 - std::pow(kBeta2, step_);
    const auto size = static_cast<float>(learning_rate / correction1);
    const auto root = static_cast<float>(std::sqrt(correction2));
    for (size_t i = 0; i < weights.size(); ++i) {
      mean_[i] = kBeta1 * mean_[i] + (1 - kBeta1) * gradient[i];
      square_[i] = kBeta2 * square_[i] + (1 - kBeta2) * gradient[i] * gradient[i];
      weights[i] -= size * mean_[i] / (std::sqrt(square_[i]) / root + kEpsilon);
    }
  }

 private:
  static constexpr float kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f;
  std::vector<float> mean_, square_;
  int step_ = 0;
};

std::vector<wordle::Game> TeacherGames(const WarmStartOptions& options,
                                       const wordle::WordList& words, uint64_t seed,
                                       uint32_t step) {
  std::vector<wordle::Game> games;
  for (uint32_t i = 0; i < options.games; ++i) {
    Rng rng(seed, {RngUse::kWarmStart, 0, step, i});
    games.push_back(wordle::DealGame(words, rng));
    wordle::PlaySloppily(words, options.care, games.back(), rng);
  }
  return games;
}

}  // namespace

void WarmStart(const WarmStartOptions& options, const ModelShape& shape, const ModelSchema& schema,
               Precision precision, const wordle::WordList& words, uint64_t seed,
               std::span<float> weights) {
  Adam adam(weights.size());
  std::vector<float> gradient(weights.size());
  for (uint32_t step = 0; step < options.steps; ++step) {
    const auto games = TeacherGames(options, words, seed, step);
    const double loss = ImitationGradient({shape, schema, precision, weights}, games, gradient);
    const double phase = std::numbers::pi * step / options.steps;
    adam.Step(options.learning_rate * (1 + std::cos(phase)) / 2, gradient, weights);
    if (options.progress) options.progress(step + 1, options.steps, loss);
  }
}

}  // namespace pulse
