// Loads what needs LibTorch, and LibTorch with it, when somebody asks for it.
#pragma once

#include <memory>
#include <vector>

#include "trainer/torch/counterparts.h"
#include "trainer/torch/torch_trainer.h"

namespace pulse {

// Both load a library that lies beside the program and stays loaded until the process ends.
// kUnimplemented where this build has none; kFailedPrecondition where it can't be loaded, with the
// loader's reason.

// Whether it lies beside the program. Nothing is loaded.
bool HasTorchPlugin();

// As MakeTorchTrainer.
StatusOr<std::unique_ptr<Trainer>> LoadTorchTrainer(TorchTrainerOptions options);

// As MakeTorchCounterparts.
StatusOr<std::vector<Counterpart>> LoadTorchCounterparts(const CounterpartArrays& arrays,
                                                         const CounterpartAdamW& options,
                                                         int threads);

}  // namespace pulse
