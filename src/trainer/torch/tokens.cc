#include "trainer/torch/tokens.h"

namespace pulse::wordle {
namespace {

StatusOr<uint8_t> LetterOf(Token token) {
  if (token < 0 || token >= static_cast<Token>(kAlphabet)) {
    return InvalidArgument("token {} stands where a letter (0 to {}) is expected", token,
                           kAlphabet - 1);
  }
  return static_cast<uint8_t>(token);
}

StatusOr<Turn> DecodePairs(std::span<const Token> tokens) {
  Turn turn;
  for (size_t i = 0; i < kWordLetters; ++i) {
    const Token pair = tokens[i] - static_cast<Token>(kAlphabet);
    if (pair < 0 || pair >= static_cast<Token>(kAlphabet * kMarks)) {
      return InvalidArgument("token {} stands where a letter with a mark ({} to {}) is expected",
                             tokens[i], kAlphabet, kVocabulary - 1);
    }
    turn.guess[i] = static_cast<uint8_t>(pair / static_cast<Token>(kMarks));
    turn.marks[i] = static_cast<Mark>(pair % static_cast<Token>(kMarks));
  }
  return turn;
}

}  // namespace

void AppendLetters(const Word& guess, std::vector<Token>& out) {
  for (const uint8_t letter : guess) out.push_back(LetterToken(letter));
}

void AppendPairs(const Turn& turn, std::vector<Token>& out) {
  for (size_t i = 0; i < kWordLetters; ++i) out.push_back(PairToken(turn.guess[i], turn.marks[i]));
}

std::vector<Token> EncodeGame(const Game& game) {
  std::vector<Token> tokens;
  AppendPairs(game.opening, tokens);
  for (const Turn& turn : game.turns) {
    AppendLetters(turn.guess, tokens);
    AppendPairs(turn, tokens);
  }
  tokens.resize(kSequence, 0);
  return tokens;
}

StatusOr<std::vector<Turn>> DecodeTurns(std::span<const Token> tokens) {
  if (tokens.size() % kTurnTokens != kWordLetters) {
    return InvalidArgument("{} tokens are no whole turns: 5 + 10 n are expected", tokens.size());
  }
  std::vector<Turn> turns;
  PULSE_ASSIGN_OR_RETURN(Turn opening, DecodePairs(tokens.first(kWordLetters)));
  turns.push_back(opening);
  for (size_t at = kWordLetters; at < tokens.size(); at += kTurnTokens) {
    PULSE_ASSIGN_OR_RETURN(Turn turn, DecodePairs(tokens.subspan(at + kWordLetters, kWordLetters)));
    for (size_t i = 0; i < kWordLetters; ++i) {
      PULSE_ASSIGN_OR_RETURN(const uint8_t letter, LetterOf(tokens[at + i]));
      if (letter != turn.guess[i]) {
        return InvalidArgument("token {}: the guess and its marks differ in letter {}", at + i, i);
      }
    }
    turns.push_back(turn);
  }
  return turns;
}

}  // namespace pulse::wordle
