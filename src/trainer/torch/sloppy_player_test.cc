#include "trainer/torch/sloppy_player.h"

#include <gtest/gtest.h>

#include <set>

namespace pulse::wordle {
namespace {

WordList Words() {
  return *WordList::FromText("abbey\nbabes\ncrane\nerase\nkeeps\nspeed\n", "test", 6);
}

TEST(DealGame, DealsEveryPairOfDifferentWords) {
  std::set<std::pair<Word, Word>> dealt;
  for (uint32_t sample = 0; sample < 1000; ++sample) {
    Rng rng(1, {RngUse::kTest, 0, 0, sample});
    const Game game = DealGame(Words(), rng);
    EXPECT_NE(game.secret, game.opening.guess);
    dealt.insert({game.secret, game.opening.guess});
  }
  EXPECT_EQ(dealt.size(), 6u * 5);
}

TEST(SloppyGuess, HeedsAllMarksWhenCareful) {
  const WordList words = Words();
  Game game =
      StartGame(*ParseWord("speed"), *ParseWord("erase"));  // y..yy: only speed and keeps fit
  std::set<std::string> guesses;
  for (uint32_t sample = 0; sample < 100; ++sample) {
    Rng rng(1, {RngUse::kTest, 0, 0, sample});
    guesses.insert(Spell(SloppyGuess(words, game, 1.0, rng)));
  }
  EXPECT_EQ(guesses, (std::set<std::string>{"keeps", "speed"}));
  PlayGuess(words, *ParseWord("keeps"), game);
  Rng rng(1, {RngUse::kTest});
  EXPECT_EQ(Spell(SloppyGuess(words, game, 1.0, rng)), "speed");
}

TEST(SloppyGuess, PlaysAnyWordWhenCareless) {
  const Game game = StartGame(*ParseWord("speed"), *ParseWord("erase"));
  std::set<Word> guesses;
  for (uint32_t sample = 0; sample < 200; ++sample) {
    Rng rng(1, {RngUse::kTest, 0, 0, sample});
    guesses.insert(SloppyGuess(Words(), game, 0.0, rng));
  }
  EXPECT_EQ(guesses.size(), 6u);
}

}  // namespace
}  // namespace pulse::wordle
