#include "trainer/torch/torch_trainer.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "trainer/torch/advantage.h"
#include "trainer/torch/objective.h"
#include "trainer/torch/rollout.h"
#include "trainer/torch/runtime.h"
#include "trainer/torch/sloppy_player.h"
#include "trainer/torch/warm_start.h"

namespace pulse {
namespace {

using wordle::Game, wordle::WordList;

// Games of one evaluation batch: enough to fill the matrix units, few enough for the cache.
constexpr uint64_t kEvaluationBatch = 256;

Status CheckOptions(const TorchTrainerOptions& o) {
  const auto positive = [](std::string_view name, uint32_t value) {
    return value > 0 ? OkStatus() : InvalidArgument("{} must be above 0", name);
  };
  PULSE_RETURN_IF_ERROR(positive("threads", o.threads));
  PULSE_RETURN_IF_ERROR(positive("warm_start_threads", o.warm_start_threads));
  PULSE_RETURN_IF_ERROR(positive("warm_start_games", o.warm_start_games));
  PULSE_RETURN_IF_ERROR(positive("groups", o.groups));
  if (o.group_games < 2) {
    return InvalidArgument("group_games is {}; advantages compare at least 2 games of a group",
                           o.group_games);
  }
  // Negated, so that a NaN is refused too.
  if (!(o.warm_start_learning_rate > 0 && o.warm_start_learning_rate <= 1)) {
    return InvalidArgument("warm_start_learning_rate is {}; expected above 0, at most 1",
                           o.warm_start_learning_rate);
  }
  if (!(o.warm_start_care >= 0 && o.warm_start_care <= 1)) {
    return InvalidArgument("warm_start_care is {}; expected a probability", o.warm_start_care);
  }
  if (!(o.clip > 0 && o.clip < 1)) {
    return InvalidArgument("clip is {}; expected between 0 and 1, exclusive", o.clip);
  }
  if (!(o.max_gradient_norm > 0)) {
    return InvalidArgument("max_gradient_norm is {}; expected above 0", o.max_gradient_norm);
  }
  return OkStatus();
}

StatusOr<Precision> PrecisionOf(std::string_view compute) {
  if (compute == "bf16") return Precision::kBF16;
  if (compute == "fp32") return Precision::kF32;
  if (compute == "auto") return HasFastBF16() ? Precision::kBF16 : Precision::kF32;
  return InvalidArgument("compute is \"{}\"; expected auto, bf16 or fp32", compute);
}

void AddGames(std::span<const Rollout> rollouts, Metrics& metrics) {
  for (const Rollout& rollout : rollouts) {
    const Game& game = rollout.game;
    metrics["games"] += 1;
    metrics["wins"] += game.won() ? 1 : 0;
    metrics["reward_sum"] += wordle::Returns(game).front();
    metrics["guesses"] += static_cast<double>(game.turns.size());
    metrics["valid_guesses"] += static_cast<double>(std::count_if(
        game.turns.begin(), game.turns.end(), [](const auto& t) { return t.legal(); }));
  }
}

// LibTorch reports by exceptions; none leaves this library.
template <typename Body>
auto Guarded(std::string_view what, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    return Internal("{}: LibTorch failed: {}", what, text.substr(0, text.find('\n')));
  }
}

class TorchTrainer final : public Trainer {
 public:
  TorchTrainer(TorchTrainerOptions options, ModelShape shape, ModelSchema schema,
               Precision precision, WordList words)
      : options_(std::move(options)),
        shape_(shape),
        schema_(std::move(schema)),
        precision_(precision),
        words_(std::move(words)) {}

  const ModelSchema& schema() const override { return schema_; }

  Status InitialWeights(std::span<float> weights) override {
    PULSE_RETURN_IF_ERROR(CheckSize("weights", weights.size()));
    return Guarded("warm start", [&]() -> Status {
      SetLibTorchThreads(static_cast<int>(options_.warm_start_threads));
      InitializeWeights(schema_, options_.seed, weights);
      const WarmStartOptions warm_start = {options_.warm_start_steps, options_.warm_start_games,
                                           options_.warm_start_learning_rate,
                                           options_.warm_start_care, options_.warm_start_progress};
      WarmStart(warm_start, shape_, schema_, precision_, words_, options_.seed, weights);
      return OkStatus();
    });
  }

  StatusOr<Metrics> Gradient(const LocalStep& step, std::span<const float> weights,
                             std::span<const float> rollout_weights,
                             std::span<float> gradient) override {
    PULSE_RETURN_IF_ERROR(CheckSize("weights", weights.size()));
    PULSE_RETURN_IF_ERROR(CheckSize("rollout_weights", rollout_weights.size()));
    PULSE_RETURN_IF_ERROR(CheckSize("gradient", gradient.size()));
    if (step.step > std::numeric_limits<uint32_t>::max()) {
      return InvalidArgument("step {} is beyond the 2^32 that random streams tell apart",
                             step.step);
    }
    if (step.micro_batches > options_.groups) {
      return InvalidArgument("{} groups can't be cut into {} micro-batches", options_.groups,
                             step.micro_batches);
    }
    return Guarded("gradient", [&]() -> StatusOr<Metrics> {
      SetLibTorchThreads(static_cast<int>(options_.threads));
      const std::vector<Rollout> rollouts = PlayGroups(step, rollout_weights);
      const std::vector<PerAction> advantages = Advantages(rollouts);
      const GrpoFigures figures =
          GrpoGradient(PolicyOf(weights), rollouts, advantages, options_.clip, gradient);
      const double norm = ClipToNorm(options_.max_gradient_norm, gradient);
      // Their sum is the mean. A power of two: exact but for denormals.
      const float share = 1 / static_cast<float>(step.micro_batches);
      for (float& g : gradient) g *= share;
      Metrics metrics = {{"loss_sum", figures.loss},
                         {"steps", 1},
                         {"tokens", figures.actions},
                         {"ratio_clipped", figures.clipped},
                         {"entropy_sum", figures.entropy_sum},
                         {"gradient_norm_sum", norm},
                         {"gradient_clipped", norm > options_.max_gradient_norm ? 1 : 0}};
      AddGames(rollouts, metrics);
      return metrics;
    });
  }

  StatusOr<Metrics> Evaluate(std::span<const float> weights, uint64_t samples,
                             uint64_t seed) override {
    PULSE_RETURN_IF_ERROR(CheckSize("weights", weights.size()));
    if (samples > std::numeric_limits<uint32_t>::max()) {
      return InvalidArgument("{} samples are beyond the 2^32 that random streams tell apart",
                             samples);
    }
    return Guarded("evaluation", [&]() -> StatusOr<Metrics> {
      SetLibTorchThreads(static_cast<int>(options_.threads));
      Metrics metrics = {
          {"games", 0}, {"wins", 0}, {"reward_sum", 0}, {"guesses", 0}, {"valid_guesses", 0}};
      for (uint64_t first = 0; first < samples; first += kEvaluationBatch) {
        std::vector<Game> games;
        std::vector<Rng> choices;
        for (uint64_t i = first; i < std::min(first + kEvaluationBatch, samples); ++i) {
          const auto sample = static_cast<uint32_t>(i);
          Rng deal(seed, {RngUse::kEval, 0, 0, sample});
          games.push_back(wordle::DealGame(words_, deal));
          choices.emplace_back(seed, RngStream{RngUse::kEval, 0, 1, sample});
        }
        AddGames(PlayGames(PolicyOf(weights), words_, std::move(games), std::move(choices)),
                 metrics);
      }
      return metrics;
    });
  }

 private:
  Status CheckSize(std::string_view name, size_t size) const {
    if (size == schema_.elements()) return OkStatus();
    return InvalidArgument("{} has {} elements; the model has {}", name, size, schema_.elements());
  }

  Policy PolicyOf(std::span<const float> weights) const {
    return {shape_, schema_, precision_, weights};
  }

  std::vector<Rollout> PlayGroups(const LocalStep& step, std::span<const float> weights) const {
    const auto number = static_cast<uint32_t>(step.step);
    std::vector<Game> games;
    std::vector<Rng> choices;
    const auto border = [&](uint64_t micro_batch) {
      return static_cast<uint32_t>(micro_batch * options_.groups / step.micro_batches);
    };
    for (uint32_t group = border(step.micro_batch); group < border(step.micro_batch + 1); ++group) {
      Rng deal(options_.seed, {RngUse::kTask, step.trainer, number, group});
      const Game game = wordle::DealGame(words_, deal);
      for (uint32_t i = 0; i < options_.group_games; ++i) {
        games.push_back(game);
        const uint32_t sample = group * options_.group_games + i;
        choices.emplace_back(options_.seed,
                             RngStream{RngUse::kPolicy, step.trainer, number, sample});
      }
    }
    return PlayGames(PolicyOf(weights), words_, std::move(games), std::move(choices));
  }

  std::vector<PerAction> Advantages(std::span<const Rollout> rollouts) const {
    std::vector<PerAction> all;
    for (size_t at = 0; at < rollouts.size(); at += options_.group_games) {
      std::vector<Game> group;
      for (size_t i = 0; i < options_.group_games; ++i) group.push_back(rollouts[at + i].game);
      for (const PerAction& advantages : wordle::GroupAdvantages(group)) all.push_back(advantages);
    }
    return all;
  }

  TorchTrainerOptions options_;
  ModelShape shape_;
  ModelSchema schema_;
  Precision precision_;
  WordList words_;
};

}  // namespace

StatusOr<std::unique_ptr<Trainer>> MakeTorchTrainer(TorchTrainerOptions options) {
  PULSE_RETURN_IF_ERROR(CheckOptions(options));
  PULSE_ASSIGN_OR_RETURN(const Precision precision, PrecisionOf(options.compute));
  const ModelShape shape = {options.layers, options.width, options.heads};
  PULSE_ASSIGN_OR_RETURN(ModelSchema schema, MakeModelSchema(shape));
  PULSE_ASSIGN_OR_RETURN(WordList words, WordList::Load(options.words, options.word_count));
  ConfigureLibTorch();
  return std::make_unique<TorchTrainer>(std::move(options), shape, std::move(schema), precision,
                                        std::move(words));
}

}  // namespace pulse
