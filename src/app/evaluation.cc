#include "app/evaluation.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "app/parts.h"
#include "app/run_summary.h"
#include "sync/checkpoint.h"

namespace pulse {
namespace {

Status LoadTensor(const TensorSpec& wanted, const TensorSpec& found, ByteView bytes, float* out) {
  if (found.shape != wanted.shape) {
    return FailedPrecondition("tensor \"{}\" has another shape than the configuration's model",
                              wanted.name);
  }
  if (found.dtype == DType::kF32) {
    std::memcpy(out, bytes.data(), bytes.size());
    return OkStatus();
  }
  if (found.dtype != DType::kBF16) {
    return FailedPrecondition("tensor \"{}\" is {}; expected F32 or BF16", wanted.name,
                              NameOf(found.dtype));
  }
  for (uint64_t i = 0; i < found.elements(); ++i) {
    const uint32_t bits = uint32_t{LoadLittle<uint16_t>(bytes.data() + 2 * i)} << 16;
    std::memcpy(out + i, &bits, sizeof(bits));
  }
  return OkStatus();
}

}  // namespace

uint64_t EvaluationSeed(const RunConfig& config) {
  return config.run.seed;
}

StatusOr<std::vector<float>> LoadWeights(Filesystem& fs, const std::string& path,
                                         const ModelSchema& schema) {
  PULSE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(fs, path));
  std::vector<float> weights(schema.elements());
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const TensorSpec& spec = schema.tensors()[i];
    const auto found = checkpoint->schema().Find(spec.name);
    if (!found.ok()) {
      return FailedPrecondition("{} has no tensor \"{}\"; is it of this configuration's model?",
                                path, spec.name);
    }
    PULSE_RETURN_IF_ERROR(
        Annotate(LoadTensor(spec, checkpoint->schema().tensors()[*found],
                            checkpoint->view().tensors[*found], weights.data() + schema.offset(i)),
                 path));
  }
  return weights;
}

StatusOr<Metrics> EvaluateCheckpoint(Filesystem& fs, const RunConfig& config,
                                     const std::string& path) {
  if (config.evaluate.samples == 0) {
    return InvalidArgument("evaluate.samples is 0: nothing to measure {} on", path);
  }
  PULSE_ASSIGN_OR_RETURN(const auto trainer, MakeTrainer(config, nullptr));
  PULSE_ASSIGN_OR_RETURN(const auto weights, LoadWeights(fs, path, trainer->schema()));
  return trainer->Evaluate(weights, config.evaluate.samples, EvaluationSeed(config));
}

std::string EvaluationText(const Metrics& metrics, bool json) {
  if (json) return nlohmann::json(metrics).dump(2) + "\n";
  const WinRate rate = WinRateOf(nlohmann::json(metrics));
  std::string out;
  if (rate.games > 0) {
    out = fmt::format("win rate {}, mean reward {:.3f}, {} games\n", WinRateText(rate),
                      rate.mean_reward(), rate.games);
  } else {
    for (const auto& [name, sum] : metrics) out += fmt::format("{} = {}\n", name, sum);
  }
  return out;
}

}  // namespace pulse
