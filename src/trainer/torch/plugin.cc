// The trainer as a library that the program loads when a configuration asks for it: LibTorch takes
// 0.4 s to load, which every other command would pay.
#include "trainer/torch/plugin.h"

#define PULSE_EXPORT extern "C" __attribute__((visibility("default")))

PULSE_EXPORT void pulse_make_torch_trainer(
    pulse::TorchTrainerOptions options, pulse::StatusOr<std::unique_ptr<pulse::Trainer>>* result) {
  *result = pulse::MakeTorchTrainer(std::move(options));
}

PULSE_EXPORT void pulse_make_torch_counterparts(const pulse::CounterpartArrays& arrays,
                                                const pulse::CounterpartAdamW& options, int threads,
                                                std::vector<pulse::Counterpart>* result) {
  *result = pulse::MakeTorchCounterparts(arrays, options, threads);
}
