#include "trainer/torch/advantage.h"

#include <cmath>

namespace pulse::wordle {

std::vector<std::array<float, kActions>> GroupAdvantages(std::span<const Game> group) {
  constexpr double kEpsilon = 1e-4;
  std::vector<std::vector<double>> returns;
  for (const Game& game : group) returns.push_back(Returns(game));
  std::vector<std::array<float, kActions>> advantages(group.size());
  for (size_t t = 0; t < kTurns; ++t) {
    double players = 0, sum = 0, squares = 0;
    for (const auto& r : returns) {
      if (t >= r.size()) continue;
      players += 1;
      sum += r[t];
    }
    if (players == 0) break;
    const double mean = sum / players;
    for (const auto& r : returns) {
      if (t < r.size()) squares += (r[t] - mean) * (r[t] - mean);
    }
    const double deviation = std::sqrt(squares / players);
    for (size_t i = 0; i < group.size(); ++i) {
      if (t >= returns[i].size()) continue;
      const double advantage = (returns[i][t] - mean) / (deviation + kEpsilon);
      for (size_t j = 0; j < kWordLetters; ++j) {
        advantages[i][t * kWordLetters + j] = static_cast<float>(advantage);
      }
    }
  }
  return advantages;
}

}  // namespace pulse::wordle
