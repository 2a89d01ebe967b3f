#include "trainer/torch/sloppy_player.h"

#include <algorithm>

namespace pulse::wordle {
namespace {

bool Fits(const Word& candidate, const Turn& turn) {
  return !turn.legal() || MarkGuess(candidate, turn.guess) == turn.marks;
}

}  // namespace

Game DealGame(const WordList& words, Rng& rng) {
  const auto count = static_cast<uint32_t>(words.size());
  const uint32_t secret = rng.Below(count);
  const uint32_t opening = (secret + 1 + rng.Below(count - 1)) % count;
  return StartGame(words[secret], words[opening]);
}

Word SloppyGuess(const WordList& words, const Game& game, double care, Rng& rng) {
  const bool careful = rng.Uniform() < care;
  std::vector<size_t> choices;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto fits = [&](const Turn& turn) { return Fits(words[i], turn); };
    if (!careful ||
        (fits(game.opening) && std::all_of(game.turns.begin(), game.turns.end(), fits))) {
      choices.push_back(i);
    }
  }
  // The secret always fits, so there is a choice.
  return words[choices[rng.Below(static_cast<uint32_t>(choices.size()))]];
}

void PlaySloppily(const WordList& words, double care, Game& game, Rng& rng) {
  while (!game.over()) PlayGuess(words, SloppyGuess(words, game, care, rng), game);
}

}  // namespace pulse::wordle
