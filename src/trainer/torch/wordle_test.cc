#include "trainer/torch/wordle.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/rng.h"

namespace pulse::wordle {
namespace {

Word W(std::string_view text) {
  return *ParseWord(text);
}

std::string MarksOf(std::string_view secret, std::string_view guess) {
  std::string text;
  for (const Mark mark : MarkGuess(W(secret), W(guess))) text += ".yG?"[static_cast<size_t>(mark)];
  return text;
}

WordList Words() {
  return *WordList::FromText("abbey\nbabes\ncrane\nerase\nkeeps\nspeed\n", "test", 6);
}

TEST(MarkGuess, AnswersForEachLetterOfTheSecretOnce) {
  EXPECT_EQ(MarksOf("crane", "crane"), "GGGGG");
  EXPECT_EQ(MarksOf("crane", "moldy"), ".....");
  EXPECT_EQ(MarksOf("crane", "nacre"), "yyyyG");
  EXPECT_EQ(MarksOf("abbey", "keeps"), ".y...");  // one e in the secret: the second e is absent
  EXPECT_EQ(MarksOf("abbey", "babes"), "yyGG.");  // two b: one here, one elsewhere
  EXPECT_EQ(MarksOf("crane", "eerie"),
            "..y.G");  // the correct e takes the only e from those before it
  EXPECT_EQ(MarksOf("speed", "erase"), "y..yy");  // two e: both elsewhere
  EXPECT_EQ(MarksOf("abbey", "kebab"), ".yGyy");  // b at the third place, then another b elsewhere
  EXPECT_EQ(MarksOf("erase", "eeeee"), "G...G");
}

// A second statement of the rules, letter by letter instead of place by place.
TEST(MarkGuess, MarksAsManyCopiesOfALetterAsBothWordsHave) {
  for (uint32_t sample = 0; sample < 2000; ++sample) {
    Rng rng(1, {RngUse::kTest, 0, 0, sample});
    Word secret, guess;
    for (size_t i = 0; i < kWordLetters; ++i) {
      secret[i] = static_cast<uint8_t>(rng.Below(3));
      guess[i] = static_cast<uint8_t>(rng.Below(3));
    }
    const Marks marks = MarkGuess(secret, guess);
    for (uint8_t letter = 0; letter < 3; ++letter) {
      int64_t marked = 0;
      bool absent_before = false;
      for (size_t i = 0; i < kWordLetters; ++i) {
        if (guess[i] != letter) continue;
        EXPECT_EQ(marks[i] == Mark::kCorrect, secret[i] == letter);
        if (marks[i] == Mark::kAbsent) absent_before = true;
        EXPECT_FALSE(absent_before && marks[i] == Mark::kPresent);  // from left to right
        marked += marks[i] != Mark::kAbsent;
      }
      EXPECT_EQ(marked, std::min(std::count(secret.begin(), secret.end(), letter),
                                 std::count(guess.begin(), guess.end(), letter)));
    }
  }
}

TEST(Game, EndsAtTheSecretOrAfterThreeTurns) {
  const WordList words = Words();
  Game game = StartGame(W("abbey"), W("keeps"));
  EXPECT_FALSE(game.over());
  PlayGuess(words, W("abbey"), game);
  EXPECT_TRUE(game.won() && game.over());

  game = StartGame(W("abbey"), W("keeps"));
  for (const char* guess : {"babes", "crane"}) {
    PlayGuess(words, W(guess), game);
    EXPECT_FALSE(game.over());
  }
  PlayGuess(words, W("erase"), game);
  EXPECT_TRUE(game.over());
  EXPECT_FALSE(game.won());
}

TEST(Game, RefusesAGuessThatIsNoWordAndTellsNothing) {
  Game game = StartGame(W("abbey"), W("keeps"));
  PlayGuess(Words(), W("abbex"), game);
  EXPECT_FALSE(game.turns[0].legal());
  for (const Mark mark : game.turns[0].marks) EXPECT_EQ(mark, Mark::kRefused);
}

TEST(Returns, AreTheHandWorkedSums) {
  const WordList words = Words();
  // Won at the first turn: 1 + 0.5 * 2/3 + 0.2 + 0.2.
  Game game = StartGame(W("abbey"), W("keeps"));
  PlayGuess(words, W("abbey"), game);
  ASSERT_EQ(Returns(game).size(), 1u);
  EXPECT_NEAR(Returns(game)[0], 1 + 1.0 / 3 + 0.4, 1e-12);

  // babes (yyGG.: 3/5), a refused word, crane (..y.y: 1/5); lost.
  game = StartGame(W("abbey"), W("keeps"));
  for (const char* guess : {"babes", "zzzzz", "crane"}) PlayGuess(words, W(guess), game);
  const auto lost = Returns(game);
  ASSERT_EQ(lost.size(), 3u);
  EXPECT_NEAR(lost[0], 0.2 * 0.6 + 0.2 * 2 / 3, 1e-12);
  EXPECT_NEAR(lost[1], 0.2 * 0.2 + 0.2 * 1 / 2, 1e-12);
  EXPECT_NEAR(lost[2], 0.2 * 0.2 + 0.2, 1e-12);

  // Refused, then won at the second turn: a third of the turns is left.
  game = StartGame(W("abbey"), W("keeps"));
  for (const char* guess : {"zzzzz", "abbey"}) PlayGuess(words, W(guess), game);
  const auto won = Returns(game);
  ASSERT_EQ(won.size(), 2u);
  EXPECT_NEAR(won[0], 1 + 0.5 / 3 + 0.2 + 0.2 / 2, 1e-12);
  EXPECT_NEAR(won[1], 1 + 0.5 / 3 + 0.2 + 0.2, 1e-12);

  EXPECT_TRUE(Returns(StartGame(W("abbey"), W("keeps"))).empty());
}

}  // namespace
}  // namespace pulse::wordle
