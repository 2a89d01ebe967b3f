#include "trainer/torch/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "trainer/torch/sloppy_player.h"

namespace pulse {
namespace {

using wordle::Game, wordle::kActions, wordle::kWordLetters;

wordle::WordList Words() {
  return *wordle::WordList::FromText("abbey\nbabes\ncrane\nerase\nkeeps\nspeed\n", "test", 6);
}

// A tiny model with weights large enough for its outputs to differ visibly from uniform.
struct Tiny {
  ModelShape shape = {.layers = 2, .width = 8, .heads = 2};
  ModelSchema schema = *MakeModelSchema(shape);
  std::vector<float> weights = std::vector<float>(schema.elements());

  Tiny() {
    InitializeWeights(schema, 3, weights);
    for (float& w : weights) {
      if (w != 1.0f) w *= 20;  // deviation 0.4
    }
  }
  Policy At(Precision precision) const { return {shape, schema, precision, weights}; }
};

// Games of all lengths, some with refused guesses.
std::vector<Game> SomeGames(uint32_t count) {
  std::vector<Game> games;
  for (uint32_t i = 0; i < count; ++i) {
    Rng rng(9, {RngUse::kTest, 0, 0, i});
    games.push_back(wordle::DealGame(Words(), rng));
    if (i % 3 == 0) wordle::PlayGuess(Words(), *wordle::ParseWord("qqqqq"), games.back());
    wordle::PlaySloppily(Words(), 0.8, games.back(), rng);
  }
  return games;
}

// As if sampled by a policy whose log-probabilities were off by `shift(i, a)`.
template <typename Shift>
std::vector<Rollout> SampledWithShift(const Policy& policy, const std::vector<Game>& games,
                                      Shift shift) {
  const auto log_probs = LogProbs(policy, games);
  std::vector<Rollout> rollouts(games.size());
  for (size_t i = 0; i < games.size(); ++i) {
    rollouts[i].game = games[i];
    for (size_t a = 0; a < games[i].turns.size() * kWordLetters; ++a) {
      rollouts[i].log_probs[a] = log_probs[i][a] + shift(i, a);
    }
  }
  return rollouts;
}

TEST(LogProbs, DoNotSeeWhatFollows) {
  const Tiny tiny;
  const auto games = SomeGames(12);
  const auto whole = LogProbs(tiny.At(Precision::kF64), games);
  for (size_t turns = 1; turns < wordle::kTurns; ++turns) {
    auto cut = games;
    for (Game& game : cut) game.turns.resize(std::min(turns, game.turns.size()));
    const auto first = LogProbs(tiny.At(Precision::kF64), cut);
    for (size_t i = 0; i < games.size(); ++i) {
      for (size_t a = 0; a < cut[i].turns.size() * kWordLetters; ++a) {
        EXPECT_NEAR(first[i][a], whole[i][a], 1e-6);
        EXPECT_LT(first[i][a], 0);
      }
      for (size_t a = cut[i].turns.size() * kWordLetters; a < kActions; ++a) {
        EXPECT_EQ(first[i][a], 0.0f);
      }
    }
  }
}

TEST(LogProbs, SeeTheOpeningAndEarlierTurns) {
  const Tiny tiny;
  auto games = SomeGames(12);
  const auto before = LogProbs(tiny.At(Precision::kF64), games);
  for (Game& game : games) game.opening.marks[0] = wordle::Mark::kRefused;
  const auto after = LogProbs(tiny.At(Precision::kF64), games);
  for (size_t i = 0; i < games.size(); ++i) {
    for (size_t a = 0; a < games[i].turns.size() * kWordLetters; ++a) {
      EXPECT_GT(std::abs(before[i][a] - after[i][a]), 1e-6) << i << " " << a;
    }
  }
}

// In double, with ratios on both sides of the clip and advantages of both signs.
class GrpoOnTinyModel : public testing::Test {
 protected:
  static constexpr double kClip = 0.2;
  Tiny tiny_;
  Policy policy_ = tiny_.At(Precision::kF64);
  std::vector<Game> games_ = SomeGames(8);
  std::vector<Rollout> rollouts_ = SampledWithShift(policy_, games_, [](size_t i, size_t a) {
    return 0.1f * static_cast<float>((i + 2 * a) % 9) - 0.4f;
  });
  std::vector<PerAction> advantages_ = Advantages();

  static std::vector<PerAction> Advantages() {
    std::vector<PerAction> out(8);
    for (size_t i = 0; i < out.size(); ++i) {
      for (size_t a = 0; a < kActions; ++a)
        out[i][a] = 0.25f * static_cast<float>((3 * i + a) % 8) - 0.8f;
    }
    return out;
  }
};

TEST_F(GrpoOnTinyModel, LossAndFiguresAreTheFormulas) {
  const auto log_probs = LogProbs(policy_, games_);
  double sum = 0, actions = 0, clipped = 0;
  for (size_t i = 0; i < games_.size(); ++i) {
    for (size_t a = 0; a < games_[i].turns.size() * kWordLetters; ++a) {
      const double ratio = std::exp(log_probs[i][a] - rollouts_[i].log_probs[a]);
      const double advantage = advantages_[i][a];
      const double bounded = std::clamp(ratio, 1 - kClip, 1 + kClip) * advantage;
      sum += std::min(ratio * advantage, bounded);
      clipped += bounded < ratio * advantage;
      actions += 1;
    }
  }
  std::vector<float> gradient(tiny_.weights.size());
  const GrpoFigures figures = GrpoGradient(policy_, rollouts_, advantages_, kClip, gradient);
  EXPECT_NEAR(figures.loss, -sum / actions, 1e-6);
  EXPECT_EQ(figures.actions, actions);
  EXPECT_EQ(figures.clipped, clipped);
  EXPECT_GT(clipped, 10);
  EXPECT_LT(clipped, actions - 10);
  EXPECT_GT(figures.entropy_sum / actions, 1.0);
  EXPECT_LT(figures.entropy_sum / actions, std::log(26.0));
}

// Central differences. The weights are FP32, so the step is what FP32 made of it.
template <typename LossAt>
void ExpectGradient(const Tiny& tiny, std::span<const float> gradient, LossAt loss_at) {
  double checked = 0;
  for (size_t t = 0; t < tiny.schema.tensors().size(); ++t) {
    const uint64_t begin = tiny.schema.offset(t), end = tiny.schema.offset(t + 1);
    for (uint64_t at = begin; at < end; at += (end - begin) / 6 + 1) {
      auto weights = tiny.weights;
      weights[at] = tiny.weights[at] + 1e-4f;
      const double up = loss_at(weights), above = weights[at];
      weights[at] = tiny.weights[at] - 1e-4f;
      const double slope = (up - loss_at(weights)) / (above - weights[at]);
      EXPECT_NEAR(gradient[at], slope, 1e-6 + 1e-4 * std::abs(slope))
          << tiny.schema.tensors()[t].name << " element " << at - begin;
      checked += slope != 0;
    }
  }
  EXPECT_GT(checked, 60);
}

TEST_F(GrpoOnTinyModel, GradientIsTheSlopeOfTheLoss) {
  std::vector<float> gradient(tiny_.weights.size()), ignored(tiny_.weights.size());
  GrpoGradient(policy_, rollouts_, advantages_, kClip, gradient);
  ExpectGradient(tiny_, gradient, [&](std::span<const float> weights) {
    const Policy moved = {tiny_.shape, tiny_.schema, Precision::kF64, weights};
    return GrpoGradient(moved, rollouts_, advantages_, kClip, ignored).loss;
  });
}

TEST(ImitationGradient, IsTheSlopeOfTheMeanNegativeLogProbability) {
  const Tiny tiny;
  const auto games = SomeGames(6);
  const auto mean_loss = [&](std::span<const float> weights) {
    std::vector<float> ignored(weights.size());
    return ImitationGradient({tiny.shape, tiny.schema, Precision::kF64, weights}, games, ignored);
  };
  double sum = 0, actions = 0;
  for (const PerAction& log_probs : LogProbs(tiny.At(Precision::kF64), games)) {
    for (const float p : log_probs) {
      sum -= p;
      actions += p != 0;
    }
  }
  std::vector<float> gradient(tiny.weights.size());
  EXPECT_NEAR(ImitationGradient(tiny.At(Precision::kF64), games, gradient), sum / actions, 1e-6);
  ExpectGradient(tiny, gradient, mean_loss);
}

// Straight through the cast: BF16 products give the double gradient at the rounded weights, to
// BF16's precision.
TEST_F(GrpoOnTinyModel, GradientInBF16IsCloseToTheOneInDouble) {
  std::vector<float> exact(tiny_.weights.size()), bf16(exact.size()), fp32(exact.size());
  std::vector<float> rounded = tiny_.weights;
  for (float& w : rounded) {
    const float big = w * 65537.0f;  // Veltkamp's splitting: keeps the 8 high bits of the 24
    w = big - (big - w);
  }
  GrpoGradient({tiny_.shape, tiny_.schema, Precision::kF64, rounded}, rollouts_, advantages_, kClip,
               exact);
  const auto distance = [&](const std::vector<float>& other) {
    double squares = 0, norm = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      squares += (exact[i] - other[i]) * static_cast<double>(exact[i] - other[i]);
      norm += static_cast<double>(exact[i]) * exact[i];
    }
    return std::sqrt(squares / norm);
  };
  GrpoGradient({tiny_.shape, tiny_.schema, Precision::kBF16, tiny_.weights}, rollouts_, advantages_,
               kClip, bf16);
  GrpoGradient({tiny_.shape, tiny_.schema, Precision::kF32, tiny_.weights}, rollouts_, advantages_,
               kClip, fp32);
  EXPECT_LT(distance(bf16), 0.2);
  EXPECT_LT(distance(fp32), 1e-3);
}

TEST(ClipToNorm, ScalesDownButNeverUp) {
  std::vector<float> gradient = {3, -4};
  EXPECT_DOUBLE_EQ(ClipToNorm(10, gradient), 5);
  EXPECT_EQ(gradient, (std::vector<float>{3, -4}));
  EXPECT_DOUBLE_EQ(ClipToNorm(1, gradient), 5);
  EXPECT_FLOAT_EQ(gradient[0], 0.6f);
  EXPECT_FLOAT_EQ(gradient[1], -0.8f);
  gradient[0] = NAN;
  EXPECT_TRUE(std::isnan(ClipToNorm(1, gradient)));
  EXPECT_TRUE(std::isnan(gradient[0]));
}

}  // namespace
}  // namespace pulse
