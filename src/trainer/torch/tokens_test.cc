#include "trainer/torch/tokens.h"

#include <gtest/gtest.h>

#include <set>

#include "trainer/torch/sloppy_player.h"

namespace pulse::wordle {
namespace {

WordList Words() {
  return *WordList::FromText("abbey\nbabes\ncrane\nerase\nkeeps\nspeed\n", "test", 6);
}

// Opening and turns in full, as DecodeTurns wants them.
std::vector<Token> AllTokens(const Game& game) {
  std::vector<Token> tokens;
  AppendPairs(game.opening, tokens);
  for (const Turn& turn : game.turns) {
    AppendLetters(turn.guess, tokens);
    AppendPairs(turn, tokens);
  }
  return tokens;
}

TEST(Tokens, AreDifferentForEveryLetterAndPairAndFillTheVocabulary) {
  std::set<Token> seen;
  for (uint8_t letter = 0; letter < kAlphabet; ++letter) {
    seen.insert(LetterToken(letter));
    for (size_t mark = 0; mark < kMarks; ++mark) {
      seen.insert(PairToken(letter, static_cast<Mark>(mark)));
    }
  }
  EXPECT_EQ(seen.size(), kVocabulary);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), static_cast<Token>(kVocabulary) - 1);
}

TEST(Tokens, DecodeToTheTurnsTheyCameFrom) {
  const WordList words = Words();
  for (uint32_t sample = 0; sample < 100; ++sample) {
    Rng rng(1, {RngUse::kTest, 0, 0, sample});
    Game game = DealGame(words, rng);
    if (sample % 3 == 0) PlayGuess(words, *ParseWord("zzzzz"), game);
    PlaySloppily(words, 0.5, game, rng);
    const auto turns = DecodeTurns(AllTokens(game));
    ASSERT_TRUE(turns.ok()) << turns.status();
    ASSERT_EQ(turns->size(), game.turns.size() + 1);
    EXPECT_EQ(turns->front(), game.opening);
    EXPECT_TRUE(std::equal(game.turns.begin(), game.turns.end(), turns->begin() + 1));
  }
}

TEST(Tokens, OfAGameAreTheFirstThoseOfItsTurns) {
  const WordList words = Words();
  Rng rng(1, {RngUse::kTest});
  Game game = DealGame(words, rng);
  PlaySloppily(words, 0, game, rng);
  auto expected = AllTokens(game);
  expected.resize(kSequence, 0);
  EXPECT_EQ(EncodeGame(game), expected);
}

TEST(ActionPosition, IsRightBeforeTheLetterItPredicts) {
  Game game = StartGame(*ParseWord("crane"), *ParseWord("speed"));
  for (const char* guess : {"abbey", "babes", "erase"}) PlayGuess(Words(), *ParseWord(guess), game);
  const auto tokens = EncodeGame(game);
  for (size_t action = 0; action < kActions; ++action) {
    const size_t position = ActionPosition(action);
    ASSERT_LT(position, kSequence);
    if (action == kActions - 1) continue;  // the last letter is no input
    const Word& guess = game.turns[action / kWordLetters].guess;
    EXPECT_EQ(tokens[position + 1], LetterToken(guess[action % kWordLetters])) << action;
  }
}

TEST(DecodeTurns, RefusesWhatCanNotStandThere) {
  const auto message = [](std::vector<Token> tokens) {
    return std::string(DecodeTurns(tokens).status().message());
  };
  const Token pair = PairToken(0, Mark::kAbsent);
  EXPECT_EQ(message({pair, pair}), "2 tokens are no whole turns: 5 + 10 n are expected");
  EXPECT_EQ(message({pair, pair, pair, pair, 3}),
            "token 3 stands where a letter with a mark (26 to 129) is expected");
  EXPECT_EQ(message({pair, pair, pair, pair, 130}),
            "token 130 stands where a letter with a mark (26 to 129) is expected");
  std::vector<Token> turn(15, pair);
  EXPECT_EQ(message(turn), "token 26 stands where a letter (0 to 25) is expected");
  std::fill_n(turn.begin() + 5, 5, LetterToken(0));
  EXPECT_EQ(message(turn), "");
  turn[7] = LetterToken(1);
  EXPECT_EQ(message(turn), "token 7: the guess and its marks differ in letter 2");
}

}  // namespace
}  // namespace pulse::wordle
