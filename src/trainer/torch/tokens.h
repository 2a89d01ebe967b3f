// How a game becomes the transformer's tokens, and where in the sequence the policy speaks.
//
//   tokens   letters a-z, then one token per (letter, mark) pair: 26 + 26 * 4 = 130. A pair as one
//            token learns far better than letter and mark apart.
//   input    5 pairs of the opening, then per turn 5 letters of the guess and their 5 pairs; of the
//            last turn only the first 4 letters, as nothing follows from the fifth: 29 tokens
//   output   letter j of turn t is predicted at position 4 + 10 t + j
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/torch/wordle.h"

namespace pulse::wordle {

inline constexpr size_t kVocabulary = kAlphabet + kAlphabet * kMarks;
inline constexpr size_t kTurnTokens = 2 * kWordLetters;
inline constexpr size_t kSequence = kTurns * kTurnTokens - 1;
inline constexpr size_t kActions = kTurns * kWordLetters;  // letters that a policy writes in a game

using Token = int64_t;  // as LibTorch's embedding wants it

constexpr Token LetterToken(uint8_t letter) {
  return letter;
}
constexpr Token PairToken(uint8_t letter, Mark mark) {
  return static_cast<Token>(kAlphabet + letter * kMarks + static_cast<size_t>(mark));
}

// Position whose output is action number `action` = t * 5 + j.
constexpr size_t ActionPosition(size_t action) {
  return kWordLetters - 1 + action / kWordLetters * kTurnTokens + action % kWordLetters;
}

void AppendLetters(const Word& guess, std::vector<Token>& out);
void AppendPairs(const Turn& turn, std::vector<Token>& out);

// kSequence tokens. A game without all its turns is filled up with token 0: no earlier position
// sees what follows it, so the filling changes nothing.
std::vector<Token> EncodeGame(const Game& game);

// The inverse of the Append functions: opening and turns from 5 + 10 n tokens, the opening first.
// kInvalidArgument: another number of tokens, or a token that can't stand where it stands.
StatusOr<std::vector<Turn>> DecodeTurns(std::span<const Token> tokens);

}  // namespace pulse::wordle
