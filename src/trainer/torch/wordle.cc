#include "trainer/torch/wordle.h"

#include <algorithm>

namespace pulse::wordle {
namespace {

constexpr double kSpeedWeight = 0.5, kPartialWeight = 0.2, kLegalWeight = 0.2;

double Partial(const Turn& turn) {
  double sum = 0;
  for (const Mark mark : turn.marks) {
    sum += mark == Mark::kCorrect ? 1.0 : mark == Mark::kPresent ? 0.5 : 0.0;
  }
  return sum / kWordLetters;
}

}  // namespace

Marks MarkGuess(const Word& secret, const Word& guess) {
  Marks marks = {};
  std::array<uint8_t, kAlphabet> unanswered = {};
  for (size_t i = 0; i < kWordLetters; ++i) {
    if (guess[i] == secret[i]) {
      marks[i] = Mark::kCorrect;
    } else {
      ++unanswered[secret[i]];
    }
  }
  for (size_t i = 0; i < kWordLetters; ++i) {
    if (marks[i] != Mark::kCorrect && unanswered[guess[i]] > 0) {
      marks[i] = Mark::kPresent;
      --unanswered[guess[i]];
    }
  }
  return marks;
}

bool Turn::correct() const {
  return std::all_of(marks.begin(), marks.end(), [](Mark m) { return m == Mark::kCorrect; });
}

Game StartGame(const Word& secret, const Word& opening) {
  return {secret, {opening, MarkGuess(secret, opening)}, {}};
}

void PlayGuess(const WordList& words, const Word& guess, Game& game) {
  Turn turn{guess, {}};
  if (words.Contains(guess)) {
    turn.marks = MarkGuess(game.secret, guess);
  } else {
    turn.marks.fill(Mark::kRefused);
  }
  game.turns.push_back(turn);
}

std::vector<double> Returns(const Game& game) {
  const size_t played = game.turns.size();
  const double speed = static_cast<double>(kTurns - played) / kTurns;
  const double won = game.won() ? 1 + kSpeedWeight * speed : 0;
  std::vector<double> returns(played);
  double best = 0, legal = 0;
  for (size_t t = played; t-- > 0;) {
    best = std::max(best, Partial(game.turns[t]));
    legal += game.turns[t].legal() ? 1 : 0;
    returns[t] =
        won + kPartialWeight * best + kLegalWeight * legal / static_cast<double>(played - t);
  }
  return returns;
}

}  // namespace pulse::wordle
