// The symbols of the loadable library of LibTorch's users, libpulse_trainer_torch_plugin.so.
// Program and library come from one build: their types are the same, nothing else is promised.
#pragma once

#include <memory>

#include "trainer/torch/counterparts.h"
#include "trainer/torch/torch_trainer.h"

namespace pulse {

inline constexpr char kTorchPluginFile[] = "libpulse_trainer_torch_plugin.so";
inline constexpr char kMakeTorchTrainer[] = "pulse_make_torch_trainer";

// As MakeTorchTrainer; the outcome goes to *result.
using MakeTorchTrainerFn = void (*)(TorchTrainerOptions options,
                                    StatusOr<std::unique_ptr<Trainer>>* result);

inline constexpr char kMakeTorchCounterparts[] = "pulse_make_torch_counterparts";

// As MakeTorchCounterparts.
using MakeTorchCounterpartsFn = void (*)(const CounterpartArrays& arrays,
                                         const CounterpartAdamW& options, int threads,
                                         std::vector<Counterpart>* result);

}  // namespace pulse
