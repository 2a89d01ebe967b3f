#include "app/torch_plugin.h"

#include "app/plugin.h"
#include "trainer/torch/plugin.h"

namespace pulse {
namespace {

// The function of that name.
StatusOr<void*> Load(const char* symbol) {
  return LoadPlugin(kTorchPluginFile, symbol,
                    "so no LibTorch: install libtorch-dev and build with -DPULSE_TORCH=ON; "
                    "trainer.kind synthetic needs none");
}

}  // namespace

bool HasTorchPlugin() {
  return HasPlugin(kTorchPluginFile);
}

StatusOr<std::unique_ptr<Trainer>> LoadTorchTrainer(TorchTrainerOptions options) {
  PULSE_ASSIGN_OR_RETURN(void* const make, Load(kMakeTorchTrainer));
  StatusOr<std::unique_ptr<Trainer>> trainer = nullptr;
  reinterpret_cast<MakeTorchTrainerFn>(make)(std::move(options), &trainer);
  return trainer;
}

StatusOr<std::vector<Counterpart>> LoadTorchCounterparts(const CounterpartArrays& arrays,
                                                         const CounterpartAdamW& options,
                                                         int threads) {
  PULSE_ASSIGN_OR_RETURN(void* const make, Load(kMakeTorchCounterparts));
  std::vector<Counterpart> counterparts;
  reinterpret_cast<MakeTorchCounterpartsFn>(make)(arrays, options, threads, &counterparts);
  return counterparts;
}

}  // namespace pulse
