#include "app/torch_plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "trainer/torch/plugin.h"

namespace pulse {

StatusOr<std::unique_ptr<Trainer>> LoadTorchTrainer(TorchTrainerOptions options) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return FailedPrecondition("/proc/self/exe: {}", error.message());
  const std::filesystem::path file = program.parent_path() / kTorchPluginFile;
  if (!std::filesystem::exists(file, error)) {
    return Unimplemented(
        "trainer.kind wordle: no {} beside the program; install libtorch-dev and build with "
        "-DPULSE_TORCH=ON, or use trainer.kind synthetic",
        kTorchPluginFile);
  }
  // Never closed: LibTorch does not survive it.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library != nullptr ? ::dlsym(library, kTorchPluginSymbol) : nullptr;
  if (symbol == nullptr) return FailedPrecondition("{}", ::dlerror());
  StatusOr<std::unique_ptr<Trainer>> trainer = nullptr;
  reinterpret_cast<MakeTorchTrainerFn>(symbol)(std::move(options), &trainer);
  return trainer;
}

}  // namespace pulse
