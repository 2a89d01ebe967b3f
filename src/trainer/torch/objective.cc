#include "trainer/torch/objective.h"

#include <algorithm>
#include <cmath>

#include "trainer/torch/transformer.h"

namespace pulse {
namespace {

using wordle::Game, wordle::kActions, wordle::kSequence, wordle::kWordLetters, wordle::Token;

// Games as rectangles: tokens [games, kSequence], actions and mask [games, kActions].
struct Batch {
  at::Tensor tokens, actions, mask;
  double played = 0;
};

at::Tensor Rows(const std::vector<Token>& values, size_t columns) {
  const auto width = static_cast<int64_t>(columns);
  return at::from_blob(const_cast<Token*>(values.data()),
                       {static_cast<int64_t>(values.size()) / width, width}, at::kLong)
      .clone();
}

at::Tensor Rows(std::span<const PerAction> values) {
  const std::array<int64_t, 2> shape = {static_cast<int64_t>(values.size()), kActions};
  return at::from_blob(const_cast<float*>(values.data()->data()), shape).clone();
}

template <typename GameOf>
Batch MakeBatch(size_t games, GameOf game_of) {
  std::vector<Token> tokens, actions;
  std::vector<PerAction> mask(games);
  Batch batch;
  for (size_t i = 0; i < games; ++i) {
    const Game& game = game_of(i);
    const std::vector<Token> row = wordle::EncodeGame(game);
    tokens.insert(tokens.end(), row.begin(), row.end());
    const size_t played = game.turns.size() * kWordLetters;
    for (const wordle::Turn& turn : game.turns) wordle::AppendLetters(turn.guess, actions);
    actions.resize((i + 1) * kActions, 0);
    std::fill_n(mask[i].begin(), played, 1.0f);
    batch.played += static_cast<double>(played);
  }
  batch.tokens = Rows(tokens, kSequence);
  batch.actions = Rows(actions, kActions);
  batch.mask = Rows(mask);
  return batch;
}

at::Tensor ActionPositions() {
  std::vector<Token> positions;
  for (size_t a = 0; a < kActions; ++a)
    positions.push_back(static_cast<Token>(wordle::ActionPosition(a)));
  return Rows(positions, kActions)[0];
}

// [games, kActions, 26]
at::Tensor AllLogProbs(const Transformer& model, const Batch& batch) {
  const at::Tensor stream = model.Run(batch.tokens, nullptr);
  return model.LetterLogProbs(stream.index_select(1, ActionPositions()));
}

at::Tensor OfActions(const at::Tensor& all, const Batch& batch) {
  return all.gather(2, batch.actions.unsqueeze(2)).squeeze(2);
}

// The edge between the objective and the caller's flat gradient. Inputs of the loss that are not
// leaves of `model` do not exist, so backward() touches nothing else.
double Backward(const Transformer& model, const at::Tensor& loss, std::span<float> gradient) {
  loss.backward();
  model.ReadGradient(gradient);
  return loss.item<double>();
}

}  // namespace

GrpoFigures GrpoGradient(const Policy& policy, std::span<const Rollout> rollouts,
                         std::span<const PerAction> advantages, double clip,
                         std::span<float> gradient) {
  const Transformer model(policy.shape, policy.schema, policy.precision, policy.weights, true);
  const Batch batch =
      MakeBatch(rollouts.size(), [&](size_t i) -> const Game& { return rollouts[i].game; });
  std::vector<PerAction> sampled;
  for (const Rollout& rollout : rollouts) sampled.push_back(rollout.log_probs);
  const at::Tensor advantage = Rows(advantages);

  const at::Tensor all = AllLogProbs(model, batch);
  const at::Tensor ratio = (OfActions(all, batch) - Rows(sampled)).exp();
  const at::Tensor free = ratio * advantage, bounded = ratio.clamp(1 - clip, 1 + clip) * advantage;
  const at::Tensor loss = -(at::minimum(free, bounded) * batch.mask).sum() / batch.played;

  GrpoFigures figures;
  figures.loss = Backward(model, loss, gradient);
  const at::NoGradGuard no_grad;
  figures.actions = batch.played;
  figures.clipped = ((bounded < free) * batch.mask).sum().item<double>();
  figures.entropy_sum = -((all * all.exp()).sum(-1) * batch.mask).sum().item<double>();
  return figures;
}

double ImitationGradient(const Policy& policy, std::span<const Game> games,
                         std::span<float> gradient) {
  const Transformer model(policy.shape, policy.schema, policy.precision, policy.weights, true);
  const Batch batch = MakeBatch(games.size(), [&](size_t i) -> const Game& { return games[i]; });
  const at::Tensor log_probs = OfActions(AllLogProbs(model, batch), batch);
  return Backward(model, -(log_probs * batch.mask).sum() / batch.played, gradient);
}

std::vector<PerAction> LogProbs(const Policy& policy, std::span<const Game> games) {
  const at::NoGradGuard no_grad;
  const Transformer model(policy.shape, policy.schema, policy.precision, policy.weights, false);
  const Batch batch = MakeBatch(games.size(), [&](size_t i) -> const Game& { return games[i]; });
  const at::Tensor log_probs =
      (OfActions(AllLogProbs(model, batch), batch) * batch.mask).to(at::kFloat).contiguous();
  std::vector<PerAction> out(games.size());
  std::copy_n(log_probs.data_ptr<float>(), games.size() * kActions, out.data()->data());
  return out;
}

double ClipToNorm(double max_norm, std::span<float> gradient) {
  double squares = 0;
  for (const float g : gradient) squares += static_cast<double>(g) * g;
  const double norm = std::sqrt(squares);
  if (norm > max_norm) {
    const auto scale = static_cast<float>(max_norm / norm);
    for (float& g : gradient) g *= scale;
  }
  return norm;
}

}  // namespace pulse
