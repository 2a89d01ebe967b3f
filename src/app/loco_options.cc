#include "app/loco_options.h"

#include "app/parts.h"

namespace pulse {

StatusOr<loco::Options> LocoOptions(const RunConfig& config) {
  loco::Options options;
  PULSE_ASSIGN_OR_RETURN(options.mode, loco::ModeFromName(config.loco.mode));
  PULSE_ASSIGN_OR_RETURN(options.rollout_weights,
                         loco::RolloutWeightsFromName(config.loco.rollout_weights));
  PULSE_ASSIGN_OR_RETURN(options.on_non_finite,
                         loco::OnNonFiniteFromName(config.loco.on_non_finite));
  PULSE_ASSIGN_OR_RETURN(options.on_trainer_error,
                         loco::OnNonFiniteFromName(config.loco.on_trainer_error));
  options.rounds = config.loco.rounds;
  options.local_steps = config.loco.local_steps;
  options.inner = AdamWOf(config);
  options.outer = {.learning_rate = config.loco.outer_learning_rate,
                   .momentum = config.loco.outer_momentum};
  options.gate_open = config.loco.open_gate;
  for (const uint64_t site : config.loco.sites) {
    options.sites.push_back(static_cast<uint32_t>(site));
  }
  PULSE_ASSIGN_OR_RETURN(options.exchange, loco::ExchangeKindFromName(config.loco.exchange));
  PULSE_ASSIGN_OR_RETURN(options.codec, UpdateCodecFromName(config.loco.codec));
  PULSE_ASSIGN_OR_RETURN(options.rounded_values, loco::ValuesFromName(config.loco.values));
  options.exchange_memory_bytes = config.loco.exchange_memory_mib << 20;
  options.ranks_per_trainer = static_cast<uint32_t>(config.loco.ranks_per_trainer);
  options.micro_batches = static_cast<uint32_t>(config.trainer.micro_batches);
  options.threads = static_cast<uint32_t>(config.loco.threads);
  options.seed = config.run.seed;
  options.deadline_ms = static_cast<int64_t>(config.loco.deadline_ms);
  options.start_deadline_ms = static_cast<int64_t>(config.loco.long_deadline_ms);
  options.agreed = AgreedTrainerSettings(config);
  // When all meet for a checkpoint; a run may be resumed with another value.
  options.agreed["checkpoint.every"] = std::to_string(config.checkpoint.every);
  return options;
}

}  // namespace pulse
