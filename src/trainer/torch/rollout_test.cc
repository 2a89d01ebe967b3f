#include "trainer/torch/rollout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trainer/torch/objective.h"
#include "trainer/torch/sloppy_player.h"

namespace pulse {
namespace {

using wordle::Game, wordle::kActions, wordle::kWordLetters;

// Words in which few letters occur, so that an untrained policy now and then writes one.
wordle::WordList Words() {
  return *wordle::WordList::FromText("aaaaa\naaaab\naaaba\naabaa\nabaaa\nbaaaa\n", "test", 6);
}

struct Small {
  ModelShape shape = {.layers = 2, .width = 32, .heads = 4};
  ModelSchema schema = *MakeModelSchema(shape);
  std::vector<float> weights = std::vector<float>(schema.elements());

  Small() {
    InitializeWeights(schema, 4, weights);
    for (float& w : weights) {
      if (w != 1.0f) w *= 8;
    }
  }
  std::vector<Rollout> Play(Precision precision, uint32_t games, uint32_t first = 0) const {
    std::vector<Game> dealt;
    std::vector<Rng> streams;
    for (uint32_t i = first; i < first + games; ++i) {
      Rng deal(2, {RngUse::kTest, 0, 0, i});
      dealt.push_back(wordle::DealGame(Words(), deal));
      streams.emplace_back(2, RngStream{RngUse::kTest, 0, 1, i});
    }
    return PlayGames({shape, schema, precision, weights}, Words(), dealt, streams);
  }
};

// The largest difference between log-probabilities as sampled, with the cache, and computed anew.
double LargestDifference(const Small& small, Precision precision) {
  const auto rollouts = small.Play(precision, 64);
  std::vector<Game> games;
  for (const Rollout& rollout : rollouts) games.push_back(rollout.game);
  const auto anew = LogProbs({small.shape, small.schema, precision, small.weights}, games);
  double largest = 0;
  for (size_t i = 0; i < games.size(); ++i) {
    for (size_t a = 0; a < kActions; ++a) {
      const bool played = a < games[i].turns.size() * kWordLetters;
      EXPECT_EQ(rollouts[i].log_probs[a] < 0, played) << i << " " << a;
      largest =
          std::max(largest, std::abs(static_cast<double>(rollouts[i].log_probs[a] - anew[i][a])));
    }
  }
  return largest;
}

TEST(PlayGames, SamplesWithTheProbabilitiesThatAPassWithoutCacheGives) {
  const Small small;
  EXPECT_LT(LargestDifference(small, Precision::kF64), 1e-6);
  EXPECT_LT(LargestDifference(small, Precision::kF32), 1e-4);
  EXPECT_LT(LargestDifference(small, Precision::kBF16),
            0.1);  // a few steps of 2^-8 at scores near 3
}

TEST(PlayGames, EndsEveryGameAndJudgesEveryGuess) {
  int won = 0;
  for (const Rollout& rollout : Small().Play(Precision::kF32, 64)) {
    const Game& game = rollout.game;
    EXPECT_TRUE(game.over());
    for (const wordle::Turn& turn : game.turns) {
      EXPECT_EQ(turn.legal(), Words().Contains(turn.guess));
      EXPECT_EQ(turn.correct(), turn.guess == game.secret);
    }
    won += game.won();
  }
  EXPECT_LT(won, 64);
}

TEST(PlayGames, DrawsEachGameFromItsOwnStream) {
  const Small small;
  const auto all = small.Play(Precision::kF64, 16), last = small.Play(Precision::kF64, 4, 12);
  for (size_t i = 0; i < last.size(); ++i) EXPECT_EQ(last[i].game.turns, all[12 + i].game.turns);
}

// Frequencies of the first letter against the policy's own probabilities.
TEST(PlayGames, ChoosesLettersAsOftenAsTheirProbabilitySays) {
  const Small small;
  Rng deal(2, {RngUse::kTest});
  const Game game = wordle::DealGame(Words(), deal);
  constexpr uint32_t kGames = 1500;
  std::vector<Rng> streams;
  for (uint32_t i = 0; i < kGames; ++i) streams.emplace_back(2, RngStream{RngUse::kTest, 0, 1, i});
  const auto rollouts = PlayGames({small.shape, small.schema, Precision::kF32, small.weights},
                                  Words(), std::vector<Game>(kGames, game), streams);
  std::array<double, wordle::kAlphabet> counts = {}, probability = {};
  for (const Rollout& rollout : rollouts) {
    const uint8_t letter = rollout.game.turns[0].guess[0];
    counts[letter] += 1;
    probability[letter] = std::exp(static_cast<double>(rollout.log_probs[0]));
  }
  double total = 0;
  for (size_t letter = 0; letter < counts.size(); ++letter) {
    const double p = probability[letter];
    total += p;
    EXPECT_NEAR(counts[letter], kGames * p, 5 * std::sqrt(kGames * p * (1 - p)) + 1e-9);
  }
  EXPECT_NEAR(total, 1, 0.02);  // letters that never came are missing
}

TEST(PlayGames, OfWeightsThatAreNotFiniteEnds) {
  Small small;
  small.weights.assign(small.weights.size(), std::numeric_limits<float>::quiet_NaN());
  for (const Rollout& rollout : small.Play(Precision::kBF16, 8)) EXPECT_TRUE(rollout.game.over());
  EXPECT_TRUE(small.Play(Precision::kBF16, 0).empty());
}

}  // namespace
}  // namespace pulse
