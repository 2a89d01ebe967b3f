// Does the whole thing learn: sampling, advantages, loss, gradient and AdamW together.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "kernels/adamw/adamw.h"
#include "trainer/torch/torch_trainer.h"

namespace pulse {
namespace {

// Sixteen words and a model of one layer: seconds instead of minutes.
TorchTrainerOptions SmallOptions() {
  const std::string path = testing::TempDir() + "learning_test_words";
  std::ofstream(path) << "abbey\nbabes\ncrane\ndough\nerase\nfancy\nkeeps\nlemon\n"
                         "mound\npiano\nquiet\nroast\nspeed\ntoast\nvault\nwrite\n";
  TorchTrainerOptions options;
  options.words = path;
  options.word_count = 16;
  options.layers = 1;
  options.width = 32;
  options.heads = 2;
  options.warm_start_steps = 150;
  options.warm_start_games = 32;
  options.warm_start_learning_rate = 5e-3;
  return options;
}

TEST(TorchTrainer, LearnsToWinByReinforcementBeyondNoise) {
  auto trainer = MakeTorchTrainer(SmallOptions());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<float> weights((*trainer)->schema().elements());
  ASSERT_TRUE((*trainer)->InitialWeights(weights).ok());
  constexpr uint64_t kGames = 1000, kSteps = 100;
  Metrics before = *(*trainer)->Evaluate(weights, kGames, 1);

  std::vector<float> m(weights.size()), v(weights.size()), gradient(weights.size());
  const kernels::AdamWOptions options = {.learning_rate = 3e-4, .beta2 = 0.999};
  for (uint64_t step = 0; step < kSteps; ++step) {
    ASSERT_TRUE((*trainer)->Gradient({0, 1, step, step}, weights, weights, gradient).ok());
    kernels::AdamWBodies().front().run(kernels::AdamWScalars::At(options, step + 1), weights, m, v,
                                       gradient);
  }
  Metrics after = *(*trainer)->Evaluate(weights, kGames, 1);
  const double rate = before["wins"] / kGames, risen = after["wins"] / kGames;
  // The standard error of a difference of two rates; by chance, six of them never come together.
  const double noise = std::sqrt((rate * (1 - rate) + risen * (1 - risen)) / kGames);
  EXPECT_GT(risen - rate, 6 * noise) << "from " << rate << " to " << risen;
  EXPECT_GT(after["reward_sum"], before["reward_sum"]);
}

}  // namespace
}  // namespace pulse
