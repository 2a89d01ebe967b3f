#include "loco/options.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "codec/sparse_small.h"
#include "loco/rounded_values.h"

namespace pulse::loco {
namespace {

constexpr std::array<std::string_view, 3> kModes = {"pulseloco", "diloco", "ddp"};
constexpr std::array<std::string_view, 2> kRolloutWeights = {"global", "local"};
constexpr std::array<std::string_view, 2> kOnNonFinite = {"drop", "stop"};

// The enumerator whose place in `names` holds `name`.
template <typename Enum, size_t n>
StatusOr<Enum> FromName(std::string_view what, const std::array<std::string_view, n>& names,
                        std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<Enum>(at - names.begin());
  return InvalidArgument("{} is \"{}\"; expected {}", what, name, fmt::join(names, ", "));
}

Status RequirePositive(std::string_view what, double value) {
  // Rounded to FP32 once in the kernels: what is 0 or infinite there is refused here.
  const float rounded = static_cast<float>(value);
  if (std::isfinite(rounded) && rounded > 0) return OkStatus();
  return InvalidArgument("{} is {}; expected a finite FP32 number above 0", what, value);
}

Status RequireFraction(std::string_view what, double value) {
  if (value >= 0 && static_cast<float>(value) < 1) return OkStatus();
  return InvalidArgument("{} is {}; expected at least 0 and below 1", what, value);
}

Status ValidateInner(const kernels::AdamWOptions& inner) {
  PULSE_RETURN_IF_ERROR(RequirePositive("inner learning_rate", inner.learning_rate));
  PULSE_RETURN_IF_ERROR(RequireFraction("inner beta1", inner.beta1));
  PULSE_RETURN_IF_ERROR(RequireFraction("inner beta2", inner.beta2));
  PULSE_RETURN_IF_ERROR(RequirePositive("inner epsilon", inner.epsilon));
  if (!(inner.weight_decay >= 0) || !(inner.learning_rate * inner.weight_decay < 1)) {
    return InvalidArgument(
        "inner weight_decay is {}; expected at least 0, and below 1 times the learning rate",
        inner.weight_decay);
  }
  return OkStatus();
}

Status ValidateSites(const std::vector<uint32_t>& sites, uint32_t trainers) {
  if (sites.empty()) return OkStatus();
  if (sites.size() != trainers) {
    return InvalidArgument("sites lists {} trainers; this job has {}", sites.size(), trainers);
  }
  const uint32_t last = *std::max_element(sites.begin(), sites.end());
  for (uint32_t site = 0; site < last; ++site) {
    if (std::find(sites.begin(), sites.end(), site) == sites.end()) {
      return InvalidArgument(
          "sites names site {} but no trainer at site {}; number them without gaps", last, site);
    }
  }
  return OkStatus();
}

}  // namespace

std::string_view NameOf(Mode mode) {
  return kModes[static_cast<size_t>(mode)];
}
std::string_view NameOf(RolloutWeights weights) {
  return kRolloutWeights[static_cast<size_t>(weights)];
}
std::string_view NameOf(OnNonFinite on_non_finite) {
  return kOnNonFinite[static_cast<size_t>(on_non_finite)];
}

StatusOr<Mode> ModeFromName(std::string_view name) {
  return FromName<Mode>("mode", kModes, name);
}
StatusOr<RolloutWeights> RolloutWeightsFromName(std::string_view name) {
  return FromName<RolloutWeights>("rollout weights", kRolloutWeights, name);
}
StatusOr<OnNonFinite> OnNonFiniteFromName(std::string_view name) {
  return FromName<OnNonFinite>("on_non_finite", kOnNonFinite, name);
}

std::string NameOfValues(std::optional<unsigned> rounded) {
  return rounded ? fmt::format("ulp:{}", *rounded) : "exact";
}

StatusOr<std::optional<unsigned>> ValuesFromName(std::string_view name) {
  if (name == NameOfValues({})) return std::optional<unsigned>();
  for (unsigned q = 0; q <= kMostRoundedBits; ++q) {
    if (name == NameOfValues(q)) return std::optional<unsigned>(q);
  }
  return InvalidArgument("values are \"{}\"; expected exact, or ulp:0 to ulp:{}", name,
                         kMostRoundedBits);
}

UpdateCodec CodecOf(const Options& options) {
  return {.name = options.codec,
          .coarser = options.rounded_values ? CoarserBits(*options.rounded_values) : 0};
}

Status Validate(const Options& options, uint32_t trainers) {
  if (options.rounds == 0) return InvalidArgument("rounds is 0; expected at least 1");
  if (options.local_steps == 0) return InvalidArgument("local_steps is 0; expected at least 1");
  // Streams of randomness number the steps of a run with 32 bits (core/rng.h).
  constexpr uint64_t kMaxSteps = std::numeric_limits<uint32_t>::max();
  if (options.local_steps > kMaxSteps / options.rounds) {
    return InvalidArgument("{} rounds of {} local steps are more than {} steps", options.rounds,
                           options.local_steps, kMaxSteps);
  }
  PULSE_RETURN_IF_ERROR(ValidateInner(options.inner));
  PULSE_RETURN_IF_ERROR(RequirePositive("outer learning_rate", options.outer.learning_rate));
  PULSE_RETURN_IF_ERROR(RequireFraction("outer momentum", options.outer.momentum));
  if (options.gate_open && options.mode != Mode::kPulseLoco) {
    return InvalidArgument("gate_open is set in mode {}; only pulseloco has a gate",
                           NameOf(options.mode));
  }
  if (options.rounded_values && options.mode != Mode::kPulseLoco) {
    return InvalidArgument(
        "values are {} in mode {}; only pulseloco keeps what rounding takes away",
        NameOfValues(options.rounded_values), NameOf(options.mode));
  }
  if (options.rounded_values > kMostRoundedBits) {
    return InvalidArgument("values are {}; expected at most ulp:{}",
                           NameOfValues(options.rounded_values), kMostRoundedBits);
  }
  if (options.on_trainer_error == OnNonFinite::kDrop &&
      options.on_non_finite != OnNonFinite::kDrop) {
    return InvalidArgument(
        "on_trainer_error is drop and on_non_finite stop; expected drop for both");
  }
  PULSE_RETURN_IF_ERROR(ValidateSites(options.sites, trainers));
  if (options.threads < 1 || options.threads > 1024) {
    return InvalidArgument("threads is {}; expected 1 to 1024", options.threads);
  }
  if (!std::has_single_bit(options.micro_batches)) {
    return InvalidArgument("micro_batches is {}; expected a power of two", options.micro_batches);
  }
  if (!std::has_single_bit(options.ranks_per_trainer) ||
      options.ranks_per_trainer > options.micro_batches) {
    return InvalidArgument(
        "ranks_per_trainer is {}; expected a power of two of at most {} micro_batches, so that the "
        "sum of a step's gradients stays the same",
        options.ranks_per_trainer, options.micro_batches);
  }
  if (options.exchange_memory_bytes == 0) {
    return InvalidArgument("exchange_memory_bytes is 0; expected at least 1");
  }
  if (options.deadline_ms <= 0 || options.start_deadline_ms <= 0) {
    return InvalidArgument("deadlines are {} and {} ms; expected at least 1", options.deadline_ms,
                           options.start_deadline_ms);
  }
  return OkStatus();
}

}  // namespace pulse::loco
