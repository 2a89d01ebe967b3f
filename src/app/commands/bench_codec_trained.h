// Weights of a real training run before and after some steps: what `bench codec` measures beside
// its synthetic data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/commands/bench_codec_data.h"
#include "kernels/kernels.h"
#include "trainer/trainer.h"

namespace pulse {

// How a trainer keeps its weights: FP32 masters, whose BF16 view is published; or BF16 and nothing
// more, so that what a step of AdamW (with FP32 moments) makes is rounded each time.
enum class Storage { kFP32, kBF16 };

struct TrainedDataOptions {
  Storage storage = Storage::kFP32;
  std::vector<uint64_t> steps;             // between versions, ascending; one data set each
  uint64_t warm_steps = 200;               // of AdamW, before the first version
  uint64_t elements = uint64_t{16} << 20;  // at least, of each data set
};

// "trained-fp32-k1", "trained-bf16-k8".
std::string TrainedDataName(Storage storage, uint64_t steps);

// Trains the model from these weights with one trainer and one AdamW step at a time, and takes
// pairs of versions, none of which overlap, until their BF16 tensors together have `elements`
// words. All data sets come from one run: the k-step pairs begin where the longest ones do.
// progress: steps taken, of how many. Deterministic; errors of the trainer; kInvalidArgument where
// the model has no BF16 tensor.
StatusOr<std::vector<CodecData>> MakeTrainedCodecData(
    Trainer& trainer, std::span<const float> initial_weights, const kernels::AdamWOptions& adam,
    const kernels::KernelTable& kernels, const TrainedDataOptions& options,
    const std::function<void(uint64_t step, uint64_t total)>& progress);

}  // namespace pulse
