#include "app/commands/bench_codec_trained.h"

#include <algorithm>
#include <bit>

namespace pulse {
namespace {

// One trainer that takes AdamW steps on weights kept as `storage` says.
class Training {
 public:
  Training(Trainer& trainer, std::span<const float> weights, const kernels::AdamWOptions& adam,
           const kernels::KernelTable& kernels, Storage storage)
      : trainer_(trainer),
        adam_(adam),
        kernels_(kernels),
        storage_(storage),
        w_(weights.begin(), weights.end()),
        m_(w_.size()),
        v_(w_.size()),
        gradient_(w_.size()),
        view_(w_.size()) {
    Round();
  }

  Status Step() {
    PULSE_RETURN_IF_ERROR(
        trainer_.Gradient({.round = steps_, .step = steps_}, w_, w_, gradient_).status());
    ++steps_;
    kernels_.adamw(kernels::AdamWScalars::At(adam_, steps_), w_, m_, v_, gradient_);
    Round();
    return OkStatus();
  }

  // The words of the BF16 tensors, in schema order.
  void AppendView(std::vector<uint16_t>& words) {
    const ModelSchema& schema = trainer_.schema();
    kernels_.cast_to_bf16(w_, view_);
    for (size_t i = 0; i < schema.tensors().size(); ++i) {
      if (schema.tensors()[i].dtype != DType::kBF16) continue;
      words.insert(words.end(), view_.begin() + static_cast<ptrdiff_t>(schema.offset(i)),
                   view_.begin() + static_cast<ptrdiff_t>(schema.offset(i + 1)));
    }
  }

 private:
  void Round() {
    if (storage_ != Storage::kBF16) return;
    kernels_.cast_to_bf16(w_, view_);
    for (size_t i = 0; i < w_.size(); ++i) w_[i] = std::bit_cast<float>(uint32_t{view_[i]} << 16);
  }

  Trainer& trainer_;
  kernels::AdamWOptions adam_;
  const kernels::KernelTable& kernels_;
  Storage storage_;
  std::vector<float> w_, m_, v_, gradient_;
  std::vector<uint16_t> view_;
  uint64_t steps_ = 0;
};

uint64_t BF16Words(const ModelSchema& schema) {
  uint64_t words = 0;
  for (const TensorSpec& spec : schema.tensors()) {
    if (spec.dtype == DType::kBF16) words += spec.elements();
  }
  return words;
}

}  // namespace

std::string TrainedDataName(Storage storage, uint64_t steps) {
  return fmt::format("trained-{}-k{}", storage == Storage::kFP32 ? "fp32" : "bf16", steps);
}

StatusOr<std::vector<CodecData>> MakeTrainedCodecData(
    Trainer& trainer, std::span<const float> initial_weights, const kernels::AdamWOptions& adam,
    const kernels::KernelTable& kernels, const TrainedDataOptions& options,
    const std::function<void(uint64_t step, uint64_t total)>& progress) {
  const uint64_t words = BF16Words(trainer.schema());
  if (words == 0) return InvalidArgument("the configuration's model has no BF16 tensor");
  std::vector<CodecData> sets;
  for (const uint64_t steps : options.steps) {
    sets.push_back({TrainedDataName(options.storage, steps), {}, {}});
  }
  const uint64_t pairs = (options.elements + words - 1) / words;
  const uint64_t between = options.steps.back();
  const uint64_t total = options.warm_steps + pairs * between;
  Training training(trainer, initial_weights, adam, kernels, options.storage);
  for (uint64_t step = 0; step < total; ++step) {
    const bool warm = step >= options.warm_steps;
    const uint64_t in_pair = warm ? (step - options.warm_steps) % between : 0;
    if (warm && in_pair == 0) {
      for (CodecData& set : sets) training.AppendView(set.before);
    }
    PULSE_RETURN_IF_ERROR(training.Step());
    for (size_t i = 0; warm && i < sets.size(); ++i) {
      if (in_pair + 1 == options.steps[i]) training.AppendView(sets[i].after);
    }
    progress(step + 1, total);
  }
  for (CodecData& set : sets) AddAwkwardWords(set);
  return sets;
}

}  // namespace pulse
