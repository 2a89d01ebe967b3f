#include "trainer/torch/torch_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

namespace pulse {
namespace {

// Six words in a file of its own, and a model that takes milliseconds.
TorchTrainerOptions SmallOptions() {
  const std::string path = testing::TempDir() + "torch_trainer_test_words";
  std::ofstream(path) << "abbey\nbabes\ncrane\nerase\nkeeps\nspeed\n";
  TorchTrainerOptions options;
  options.words = path;
  options.word_count = 6;
  options.layers = 1;
  options.width = 32;
  options.heads = 2;
  options.warm_start_steps = 40;
  options.warm_start_games = 16;
  options.warm_start_learning_rate = 1e-2;
  return options;
}

std::unique_ptr<Trainer> Make(TorchTrainerOptions options = SmallOptions()) {
  auto trainer = MakeTorchTrainer(std::move(options));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return std::move(trainer).value();
}

std::vector<float> Initial(Trainer& trainer) {
  std::vector<float> weights(trainer.schema().elements(), -1);
  EXPECT_TRUE(trainer.InitialWeights(weights).ok());
  return weights;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

struct Result {
  std::vector<uint32_t> gradient;
  Metrics metrics;
  friend bool operator==(const Result&, const Result&) = default;
};

Result GradientOf(Trainer& trainer, const LocalStep& step, const std::vector<float>& weights,
                  const std::vector<float>& rollout_weights) {
  std::vector<float> gradient(weights.size(), std::numeric_limits<float>::quiet_NaN());
  const auto metrics = trainer.Gradient(step, weights, rollout_weights, gradient);
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return {Bits(gradient), *metrics};
}

constexpr LocalStep kStep = {.trainer = 2, .trainers = 4, .round = 3, .step = 29};

TEST(TorchTrainer, CutsAStepIntoMicroBatchesOfItsGroups) {
  const auto trainer = Make();
  const auto weights = Initial(*trainer);
  const Result whole = GradientOf(*trainer, kStep, weights, weights);
  double games = 0;
  std::set<std::vector<uint32_t>> gradients;
  for (uint32_t part = 0; part < 2; ++part) {
    LocalStep step = kStep;
    step.micro_batch = part;
    step.micro_batches = 2;
    const Result mine = GradientOf(*trainer, step, weights, weights);
    EXPECT_EQ(GradientOf(*trainer, step, weights, weights), mine);
    games += mine.metrics.at("games");
    gradients.insert(mine.gradient);
  }
  EXPECT_EQ(games, whole.metrics.at("games"));
  EXPECT_EQ(gradients.size(), 2u) << "both parts played the same games";
  LocalStep step = kStep;
  step.micro_batches = 1 << 20;
  std::vector<float> gradient(weights.size());
  EXPECT_TRUE(
      absl::IsInvalidArgument(trainer->Gradient(step, weights, weights, gradient).status()));
}

TEST(TorchTrainer, GivesTheSameBitsForTheSameArgumentsWhateverHappenedBefore) {
  const auto trainer = Make(), fresh = Make();
  const auto weights = Initial(*trainer);
  const Result first = GradientOf(*trainer, kStep, weights, weights);
  LocalStep other = kStep;
  other.step = 30;
  EXPECT_NE(GradientOf(*trainer, other, weights, weights).gradient, first.gradient);
  ASSERT_TRUE(trainer->Evaluate(weights, 50, 1).ok());
  EXPECT_EQ(Bits(Initial(*trainer)), Bits(weights));
  EXPECT_EQ(GradientOf(*trainer, kStep, weights, weights), first);
  EXPECT_EQ(GradientOf(*fresh, kStep, weights, weights), first);
  EXPECT_EQ(Bits(Initial(*fresh)), Bits(weights));
}

TEST(TorchTrainer, DrawsAnewForEveryTrainerStepAndSeed) {
  auto options = SmallOptions();
  const auto trainer = Make(options);
  options.seed = 2;
  const auto other_seed = Make(options);
  const auto weights = Initial(*trainer);
  EXPECT_NE(Bits(Initial(*other_seed)), Bits(weights));
  const Result base = GradientOf(*trainer, kStep, weights, weights);
  for (const LocalStep step : {LocalStep{1, 4, 3, 29}, LocalStep{2, 4, 3, 28}}) {
    EXPECT_NE(GradientOf(*trainer, step, weights, weights).gradient, base.gradient);
  }
  EXPECT_NE(GradientOf(*other_seed, kStep, weights, weights).gradient, base.gradient);
  // How many trainers there are and which round it is are no part of a step's randomness.
  EXPECT_EQ(GradientOf(*trainer, {2, 1, 0, 29}, weights, weights), base);
}

// Weights that are not a number always write zzzzz, which is a word here: what then differs from
// step to step is the deal alone.
TEST(TorchTrainer, DealsOtherGamesToEveryTrainerAndStepButTheSameToAGroup) {
  auto options = SmallOptions();
  std::ofstream(options.words) << "abbey\nblaze\ncrazy\njazzy\nzebra\nzzzzz\n";
  const auto trainer = Make(options);
  const std::vector<float> nan(trainer->schema().elements(),
                               std::numeric_limits<float>::quiet_NaN());
  std::set<double> rewards_of_trainers, rewards_of_steps;
  for (uint32_t i = 0; i < 8; ++i) {
    Metrics m = GradientOf(*trainer, {i, 8, 0, 5}, nan, nan).metrics;
    EXPECT_EQ(std::fmod(m["wins"], options.group_games), 0) << m["wins"];
    rewards_of_trainers.insert(m["reward_sum"]);
    rewards_of_steps.insert(GradientOf(*trainer, {0, 8, 0, i}, nan, nan).metrics["reward_sum"]);
  }
  EXPECT_GT(rewards_of_trainers.size(), 3u);
  EXPECT_GT(rewards_of_steps.size(), 3u);
}

TEST(TorchTrainer, MeasuresTheStepItTook) {
  const auto trainer = Make();
  const auto weights = Initial(*trainer);
  Metrics m = GradientOf(*trainer, kStep, weights, weights).metrics;
  EXPECT_EQ(m["games"], 32);
  EXPECT_EQ(m["steps"], 1);
  EXPECT_EQ(m["tokens"], 5 * m["guesses"]);
  EXPECT_LE(m["valid_guesses"], m["guesses"]);
  EXPECT_LE(m["wins"], m["games"]);
  EXPECT_GT(m["reward_sum"], m["wins"]);
  EXPECT_GT(m["entropy_sum"], 0);
  EXPECT_EQ(m["ratio_clipped"], 0);  // on policy
  EXPECT_EQ(m["gradient_clipped"], m["gradient_norm_sum"] > 1 ? 1 : 0);
}

TEST(TorchTrainer, BoundsTheGradientsNorm) {
  auto options = SmallOptions();
  options.max_gradient_norm = 0.01;
  const auto trainer = Make(options);
  const auto weights = Initial(*trainer);
  std::vector<float> gradient(weights.size());
  const auto metrics = trainer->Gradient(kStep, weights, weights, gradient);
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->at("gradient_clipped"), 1);
  double squares = 0;
  for (const float g : gradient) squares += static_cast<double>(g) * g;
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-6);
}

// Other weights play the games: the games are theirs, and the ratios leave 1.
TEST(TorchTrainer, PlaysWithTheRolloutWeights) {
  const auto trainer = Make();
  const auto weights = Initial(*trainer);
  auto moved = weights;
  for (size_t i = 0; i < moved.size(); ++i) moved[i] *= i % 2 == 0 ? 1.1f : 0.9f;
  Metrics same = GradientOf(*trainer, kStep, moved, moved).metrics;
  Metrics off = GradientOf(*trainer, kStep, weights, moved).metrics;
  EXPECT_EQ(off["reward_sum"], same["reward_sum"]);
  EXPECT_EQ(off["guesses"], same["guesses"]);
  EXPECT_GT(off["ratio_clipped"], 0);
}

TEST(TorchTrainer, EvaluatesTheViewOnGamesOfTheSeed) {
  const auto trainer = Make();
  const auto weights = Initial(*trainer);
  auto view = weights;
  for (size_t i = 0; i < trainer->schema().tensors().size(); ++i) {
    if (trainer->schema().tensors()[i].dtype != DType::kBF16) continue;
    for (uint64_t at = trainer->schema().offset(i); at < trainer->schema().offset(i + 1); ++at) {
      const auto bits = std::bit_cast<uint32_t>(view[at]);
      view[at] = std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
    }
  }
  ASSERT_NE(Bits(view), Bits(weights));
  const auto figures = trainer->Evaluate(weights, 300, 7);  // more than one batch
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->at("games"), 300);
  EXPECT_GT(figures->at("guesses"), 300);
  EXPECT_EQ(*trainer->Evaluate(weights, 300, 7), *figures);
  EXPECT_EQ(*trainer->Evaluate(view, 300, 7), *figures);
  EXPECT_NE(*trainer->Evaluate(weights, 300, 8), *figures);
  EXPECT_EQ(trainer->Evaluate(weights, 0, 7)->at("games"), 0);
}

TEST(TorchTrainer, WarmStartTellsItsProgressAndLearnsToSpell) {
  auto options = SmallOptions();
  std::vector<double> losses;
  options.warm_start_steps = 60;
  options.warm_start_progress = [&](uint64_t step, uint64_t total, double loss) {
    EXPECT_EQ(step, losses.size() + 1);
    EXPECT_EQ(total, 60u);
    losses.push_back(loss);
  };
  Initial(*Make(options));
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_NEAR(losses.front(), std::log(26.0), 0.1);
  EXPECT_LT(losses.back(), 1.0);
}

TEST(TorchTrainer, PassesOnWhatIsNotFinite) {
  const auto trainer = Make();
  auto weights = Initial(*trainer);
  for (float& w : weights) w = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> gradient(weights.size());
  ASSERT_TRUE(trainer->Gradient(kStep, weights, weights, gradient).ok());
  EXPECT_TRUE(std::isnan(gradient[0]));
  EXPECT_TRUE(trainer->Evaluate(weights, 10, 1).ok());
}

TEST(TorchTrainer, RefusesArraysOfAnotherModelAndStepsBeyondItsStreams) {
  const auto trainer = Make();
  std::vector<float> right(trainer->schema().elements()), wrong(3);
  const std::string size = std::to_string(right.size());
  EXPECT_EQ(trainer->InitialWeights(wrong).message(),
            "weights has 3 elements; the model has " + size);
  EXPECT_EQ(trainer->Gradient(kStep, right, wrong, right).status().message(),
            "rollout_weights has 3 elements; the model has " + size);
  EXPECT_EQ(trainer->Gradient(kStep, right, right, wrong).status().message(),
            "gradient has 3 elements; the model has " + size);
  EXPECT_EQ(trainer->Evaluate(wrong, 1, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(trainer->Evaluate(right, uint64_t{1} << 33, 1).ok());
  EXPECT_FALSE(trainer->Gradient({0, 1, 0, uint64_t{1} << 32}, right, right, right).ok());
}

TEST(MakeTorchTrainer, NamesTheOptionThatIsWrong) {
  const auto message = [](auto change) {
    auto options = SmallOptions();
    change(options);
    const auto trainer = MakeTorchTrainer(options);
    EXPECT_EQ(trainer.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(trainer.status().message());
  };
  using O = TorchTrainerOptions;
  EXPECT_EQ(message([](O& o) { o.threads = 0; }), "threads must be above 0");
  EXPECT_EQ(message([](O& o) { o.groups = 0; }), "groups must be above 0");
  EXPECT_EQ(message([](O& o) { o.group_games = 1; }),
            "group_games is 1; advantages compare at least 2 games of a group");
  EXPECT_EQ(message([](O& o) { o.clip = 1; }), "clip is 1; expected between 0 and 1, exclusive");
  EXPECT_EQ(message([](O& o) { o.max_gradient_norm = NAN; }),
            "max_gradient_norm is nan; expected above 0");
  EXPECT_EQ(message([](O& o) { o.warm_start_care = 1.5; }),
            "warm_start_care is 1.5; expected a probability");
  EXPECT_EQ(message([](O& o) { o.warm_start_learning_rate = 0; }),
            "warm_start_learning_rate is 0; expected above 0, at most 1");
  EXPECT_EQ(message([](O& o) { o.compute = "fp16"; }),
            "compute is \"fp16\"; expected auto, bf16 or fp32");
  EXPECT_EQ(message([](O& o) { o.heads = 3; }), "width 32 is no multiple of heads 3");
  EXPECT_THAT(message([](O& o) { o.word_count = 7; }), testing::HasSubstr("has 6 words"));
}

TEST(MakeTorchTrainer, SaysHowToGetTheWords) {
  auto options = SmallOptions();
  options.words = "/nonexistent/words";
  const auto trainer = MakeTorchTrainer(options);
  EXPECT_EQ(trainer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(trainer.status().message()),
              testing::HasSubstr("apt-get install wamerican"));
}

// The arithmetic contract forbids flush-to-zero; a library built with -ffast-math would switch it
// on for the whole process when it is loaded.
TEST(MakeTorchTrainer, LeavesDenormalsAlone) {
  const auto trainer = Make();
  Initial(*trainer);
  volatile float smallest = std::numeric_limits<float>::denorm_min();
  volatile float normal = std::numeric_limits<float>::min();
  EXPECT_GT(smallest * 2.0f, 0.0f);
  EXPECT_GT(normal * 0.5f, 0.0f);
}

}  // namespace
}  // namespace pulse
