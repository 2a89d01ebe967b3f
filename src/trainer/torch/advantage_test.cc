#include "trainer/torch/advantage.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pulse::wordle {
namespace {

Word W(std::string_view text) {
  return *ParseWord(text);
}

Game Played(std::initializer_list<const char*> guesses) {
  const auto words = *WordList::FromText("abbey\nbabes\ncrane\nerase\nkeeps\nspeed\n", "test", 6);
  Game game = StartGame(W("abbey"), W("keeps"));
  for (const char* guess : guesses) PlayGuess(words, W(guess), game);
  return game;
}

// Returns: a wins at once (1 + 1/3 + 0.4), b gets 0.32, 0.24, 0.24 and c 0.24 in every turn: crane
// has marks ..y.y (1/5) and babes yyGG. (3/5).
TEST(GroupAdvantages, AreTheHandWorkedScores) {
  const std::vector<Game> group = {Played({"abbey"}), Played({"babes", "crane", "crane"}),
                                   Played({"crane", "crane", "crane"})};
  const double first[] = {1 + 1.0 / 3 + 0.4, 0.2 * 0.6 + 0.2, 0.2 * 0.2 + 0.2};
  const double mean = (first[0] + first[1] + first[2]) / 3;
  double squares = 0;
  for (const double r : first) squares += (r - mean) * (r - mean);
  const auto advantages = GroupAdvantages(group);
  ASSERT_EQ(advantages.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const double expected = (first[i] - mean) / (std::sqrt(squares / 3) + 1e-4);
    for (size_t j = 0; j < kWordLetters; ++j) EXPECT_NEAR(advantages[i][j], expected, 1e-6);
    // In the later turns only b and c play, and fare alike; a has no such turns.
    for (size_t j = kWordLetters; j < kActions; ++j) EXPECT_NEAR(advantages[i][j], 0, 1e-6);
  }
  EXPECT_GT(advantages[0][0], 1.4f);  // one winner among three: (3 - 1) / sqrt(2) = 1.414 at most
}

TEST(GroupAdvantages, CompareATurnOnlyAmongThoseWhoPlayedIt) {
  const auto advantages = GroupAdvantages(std::vector<Game>{
      Played({"abbey"}), Played({"crane", "abbey"}), Played({"crane", "crane", "babes"})});
  EXPECT_NEAR(advantages[1][kWordLetters], 1, 1e-3);  // two players: one above, one below
  EXPECT_NEAR(advantages[2][kWordLetters], -1, 1e-3);
  EXPECT_EQ(advantages[2][2 * kWordLetters], 0.0f);  // alone in the third turn
  EXPECT_EQ(advantages[0][kWordLetters], 0.0f);
}

TEST(GroupAdvantages, AreZeroWhenAllFareAlike) {
  const std::vector<Game> group(4, Played({"crane", "speed", "erase"}));
  for (const auto& advantages : GroupAdvantages(group)) {
    for (const float a : advantages) EXPECT_EQ(a, 0.0f);
  }
}

}  // namespace
}  // namespace pulse::wordle
