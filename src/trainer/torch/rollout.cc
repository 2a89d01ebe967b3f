#include "trainer/torch/rollout.h"

#include <cmath>

#include "trainer/torch/transformer.h"

namespace pulse {
namespace {

using wordle::kAlphabet, wordle::kWordLetters, wordle::Token, wordle::Word;

// Inverts the distribution function; the last letter takes what rounding, or a NaN, leaves over.
uint8_t Choose(const float* log_probs, float uniform) {
  float sum = 0;
  for (uint8_t letter = 0; letter < kAlphabet - 1; ++letter) {
    sum += std::exp(log_probs[letter]);
    if (uniform < sum) return letter;
  }
  return kAlphabet - 1;
}

at::Tensor AsTensor(std::vector<Token>& tokens, size_t batch) {
  const auto rows = static_cast<int64_t>(batch);
  return at::from_blob(tokens.data(), {rows, static_cast<int64_t>(tokens.size()) / rows},
                       at::kLong);
}

// The batch's state: what the transformer has not read yet, per game a row.
class Table {
 public:
  Table(const Policy& policy, size_t games)
      : model_(policy.shape, policy.schema, policy.precision, policy.weights, /*trainable=*/false),
        cache_(model_.MakeCache(static_cast<int64_t>(games))),
        games_(games) {}

  // Reads `tokens` (games x n, row by row) and returns log-probabilities of the next letter, games
  // x 26.
  at::Tensor Read(std::vector<Token>& tokens) {
    const at::Tensor stream = model_.Run(AsTensor(tokens, games_), &cache_);
    return model_.LetterLogProbs(stream.select(1, stream.size(1) - 1)).to(at::kFloat).contiguous();
  }

 private:
  Transformer model_;
  KvCache cache_;
  size_t games_;
};

}  // namespace

std::vector<Rollout> PlayGames(const Policy& policy, const wordle::WordList& words,
                               std::vector<wordle::Game> games, std::vector<Rng> streams) {
  const at::NoGradGuard no_grad;
  std::vector<Rollout> rollouts(games.size());
  if (games.empty()) return rollouts;
  Table table(policy, games.size());
  std::vector<Token> tokens;
  for (const wordle::Game& game : games) wordle::AppendPairs(game.opening, tokens);
  for (size_t turn = 0; turn < wordle::kTurns; ++turn) {
    std::vector<Word> guesses(games.size());
    for (size_t j = 0; j < kWordLetters; ++j) {
      const at::Tensor log_probs = table.Read(tokens);
      tokens.clear();
      for (size_t i = 0; i < games.size(); ++i) {
        const float* row = log_probs.data_ptr<float>() + i * kAlphabet;
        guesses[i][j] = Choose(row, streams[i].Uniform());
        if (!games[i].over()) rollouts[i].log_probs[turn * kWordLetters + j] = row[guesses[i][j]];
        tokens.push_back(wordle::LetterToken(guesses[i][j]));
      }
    }
    // The fifth letter is read together with the marks. A game that is over goes on as a shadow,
    // with the marks of its last turn, so that the batch stays rectangular; nobody sees its rows.
    std::vector<Token> next;
    for (size_t i = 0; i < games.size(); ++i) {
      if (!games[i].over()) wordle::PlayGuess(words, guesses[i], games[i]);
      next.push_back(tokens[i]);
      wordle::AppendPairs(games[i].turns.back(), next);
    }
    tokens = std::move(next);
  }
  for (size_t i = 0; i < games.size(); ++i) rollouts[i].game = std::move(games[i]);
  return rollouts;
}

}  // namespace pulse
