// Group-relative advantages (Shao et al., "DeepSeekMath", 2024), per turn.
#pragma once

#include <span>
#include <vector>

#include "trainer/torch/tokens.h"

namespace pulse::wordle {

// One advantage per action (letter) of each game; the letters of a turn share it. For turn t, over
// the games of the group that played it: (return - mean) / (deviation + 1e-4), with the
// population's standard deviation; the constant, GRPO's usual one, only keeps equal returns from
// dividing by zero. 0 for turns that a game did not play. `group`: games of one secret and opening.
std::vector<std::array<float, kActions>> GroupAdvantages(std::span<const Game> group);

}  // namespace pulse::wordle
