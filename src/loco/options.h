// What a run of the outer loop is asked to do. Plain values; all but deadlines must be equal on
// every rank (loco/fingerprint.h compares them).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/update_codec.h"
#include "core/status.h"
#include "kernels/adamw/adamw.h"
#include "loco/exchange/choice.h"

namespace pulse::loco {

// pulseloco: H local steps, then the gated sparse update with error feedback. diloco: the same with
// the gate open and no residual, exchanged densely. ddp: gradients averaged at every local step.
enum class Mode { kPulseLoco, kDiloco, kDdp };

// Whose weights make the rollouts of a local step: the round's theta, or the trainer's own w. In
// ddp the two are one.
enum class RolloutWeights { kGlobal, kLocal };

// What a non-finite gradient or weight does: drop its trainer from the round (pulseloco, diloco) or
// the step (ddp), or stop the run.
enum class OnNonFinite { kDrop, kStop };

std::string_view NameOf(Mode mode);                  // "pulseloco", "diloco", "ddp"
std::string_view NameOf(RolloutWeights weights);     // "global", "local"
std::string_view NameOf(OnNonFinite on_non_finite);  // "drop", "stop"

// Of rounded_values: "exact", or "ulp:q".
std::string NameOfValues(std::optional<unsigned> rounded);

// kInvalidArgument lists the names there are.
StatusOr<std::optional<unsigned>> ValuesFromName(std::string_view name);
StatusOr<Mode> ModeFromName(std::string_view name);
StatusOr<RolloutWeights> RolloutWeightsFromName(std::string_view name);
StatusOr<OnNonFinite> OnNonFiniteFromName(std::string_view name);

struct OuterOptions {
  double learning_rate = 0.7;  // the public reference implementation's defaults
  double momentum = 0.9;
};

struct Options {
  Mode mode = Mode::kPulseLoco;
  uint64_t rounds = 1;
  uint64_t local_steps = 8;  // H, per round; in ddp too, so that data budgets compare
  kernels::AdamWOptions inner;
  OuterOptions outer;
  bool gate_open = false;  // pulseloco only: send everything, hold back nothing
  RolloutWeights rollout_weights = RolloutWeights::kGlobal;
  OnNonFinite on_non_finite = OnNonFinite::kDrop;
  // The same for an error of the trainer; kDrop only where on_non_finite is.
  OnNonFinite on_trainer_error = OnNonFinite::kStop;

  // R: ranks that share a trainer's work and state; rank k * R + r holds shard r of trainer k. No
  // bit of any result depends on it.
  uint32_t ranks_per_trainer = 1;
  // M: parts of a step's batch, whose gradients are added as a binary tree. Powers of two, R <= M.
  uint32_t micro_batches = 1;

  // sites[k]: trainer k's site, numbered from 0 without gaps. Part of the order of every sum.
  // Empty: one site.
  std::vector<uint32_t> sites;

  // Of this rank, for its passes over weights. No bit of any result depends on it.
  uint32_t threads = 1;

  // Algorithm of the exchanges; kAuto: by estimate in pulseloco, dense in diloco and ddp. No bit of
  // any result depends on it.
  ExchangeKind exchange = ExchangeKind::kAuto;
  // Bound of the buffers of one exchange on each rank, bytes; longer arrays go in segments.
  uint64_t exchange_memory_bytes = uint64_t{512} << 20;

  // How sparse updates are coded. No bit of any result depends on it.
  UpdateCodecName codec = UpdateCodecName::kSmall;
  // Beyond the paper, pulseloco only. q: values are rounded to 2^-q of the BF16 spacing at theta
  // where the view is BF16, and the rest waits in the residual (loco/rounded_values.h). Nothing:
  // values are sent exactly.
  std::optional<unsigned> rounded_values;

  // The run's seed, as the trainer was made with; the loop itself draws nothing.
  uint64_t seed = 1;

  // Longest wait for the other ranks in one exchange. Must cover how much longer than the others a
  // rank may take for a round's local steps.
  int64_t deadline_ms = 600'000;
  // The same for the start of a run, where rank 0's trainer makes the initial weights. Also how
  // long a rank may be at work between rounds (an observer's, a checkpoint's disk) while the others
  // wait: it tells them several times per deadline that it is.
  int64_t start_deadline_ms = 3'600'000;

  // Further settings that must be equal on all ranks, such as the trainer's: key -> value.
  std::map<std::string, std::string> agreed;
};

// The codec of the options' sparse updates, with the grid of their values.
UpdateCodec CodecOf(const Options& options);

// kInvalidArgument names the option, its value and what was expected. trainers: K.
Status Validate(const Options& options, uint32_t trainers);

}  // namespace pulse::loco
