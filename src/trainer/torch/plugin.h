// The one symbol of the loadable trainer, libpulse_trainer_torch_plugin.so. Program and library
// come from one build: their types are the same, nothing else is promised.
#pragma once

#include <memory>

#include "trainer/torch/torch_trainer.h"

namespace pulse {

inline constexpr char kTorchPluginFile[] = "libpulse_trainer_torch_plugin.so";
inline constexpr char kTorchPluginSymbol[] = "pulse_make_torch_trainer";

// As MakeTorchTrainer; the outcome goes to *result.
using MakeTorchTrainerFn = void (*)(TorchTrainerOptions options,
                                    StatusOr<std::unique_ptr<Trainer>>* result);

}  // namespace pulse
