// The game: guess a secret word from the marks of earlier guesses. The environment plays the
// opening guess, then the player has three. All functions are pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/torch/words.h"

namespace pulse::wordle {

inline constexpr size_t kTurns = 3;

enum class Mark : uint8_t {
  kAbsent = 0,   // the secret has no (further) such letter
  kPresent = 1,  // it has, at another place
  kCorrect = 2,  // it has, here
  kRefused = 3,  // the guess is no legal word: the turn is lost and nothing is told
};
inline constexpr size_t kMarks = 4;
using Marks = std::array<Mark, kWordLetters>;

// Marks of a legal guess. Each letter of the secret answers for one letter of the guess: correct
// ones first, then from left to right; further copies are absent.
Marks MarkGuess(const Word& secret, const Word& guess);

struct Turn {
  Word guess = {};
  Marks marks = {};
  bool legal() const { return marks[0] != Mark::kRefused; }
  bool correct() const;
  friend bool operator==(const Turn&, const Turn&) = default;
};

struct Game {
  Word secret = {};
  Turn opening;
  std::vector<Turn> turns;  // the player's, at most kTurns; the last one is correct or none is

  bool won() const { return !turns.empty() && turns.back().correct(); }
  bool over() const { return won() || turns.size() == kTurns; }
};

Game StartGame(const Word& secret, const Word& opening);

// Plays `guess`, legal or not. The game must not be over.
void PlayGuess(const WordList& words, const Word& guess, Game& game);

// Return of each turn, from that turn on: with n = turns played, and over the turns t, ..., n - 1
// only,
//
//   won + 0.5 * won * (kTurns - n) / kTurns + 0.2 * partial + 0.2 * (share of legal guesses)
//
// partial: the best guess's share of correct letters, letters in the wrong place counting half.
// The first is the reward of the game. Empty for a game without turns.
std::vector<double> Returns(const Game& game);

}  // namespace pulse::wordle
