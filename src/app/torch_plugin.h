// Loads the LibTorch trainer, and LibTorch with it, when a configuration asks for it.
#pragma once

#include <memory>

#include "trainer/torch/torch_trainer.h"

namespace pulse {

// As MakeTorchTrainer. The library lies beside the program and stays loaded until the process ends.
// kUnimplemented where this build has none; kFailedPrecondition where it can't be loaded, with the
// loader's reason.
StatusOr<std::unique_ptr<Trainer>> LoadTorchTrainer(TorchTrainerOptions options);

}  // namespace pulse
