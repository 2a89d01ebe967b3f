#include "app/torch_plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "trainer/torch/plugin.h"

namespace pulse {
namespace {

// The function of that name.
StatusOr<void*> Load(const char* symbol) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return FailedPrecondition("/proc/self/exe: {}", error.message());
  const std::filesystem::path file = program.parent_path() / kTorchPluginFile;
  if (!std::filesystem::exists(file, error)) {
    return Unimplemented(
        "no {} beside the program, so no LibTorch: install libtorch-dev and build with "
        "-DPULSE_TORCH=ON; trainer.kind synthetic needs none",
        kTorchPluginFile);
  }
  // Never closed: LibTorch does not survive it.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library != nullptr ? ::dlsym(library, symbol) : nullptr;
  if (function == nullptr) return FailedPrecondition("{}", ::dlerror());
  return function;
}

}  // namespace

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
