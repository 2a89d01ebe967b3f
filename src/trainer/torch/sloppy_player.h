// The teacher of the warm start: plays legal words, but heeds the marks only sometimes. It teaches
// spelling and a bit of the game; a perfect one would leave nothing to be learned by reinforcement.
#pragma once

#include "core/rng.h"
#include "trainer/torch/wordle.h"

namespace pulse::wordle {

// A secret and a different opening word, both uniform.
Game DealGame(const WordList& words, Rng& rng);

// With probability `care` one of the words that fit all marks so far, else any; uniform.
Word SloppyGuess(const WordList& words, const Game& game, double care, Rng& rng);

// Plays the game to its end.
void PlaySloppily(const WordList& words, double care, Game& game, Rng& rng);

}  // namespace pulse::wordle
