#include "app/plugin.h"

#include <dlfcn.h>

#include <filesystem>

namespace pulse {
namespace {

StatusOr<std::filesystem::path> PathOf(const char* file) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return FailedPrecondition("/proc/self/exe: {}", error.message());
  return program.parent_path() / file;
}

}  // namespace

bool HasPlugin(const char* file) {
  const auto path = PathOf(file);
  std::error_code error;
  return path.ok() && std::filesystem::exists(*path, error);
}

StatusOr<void*> LoadPlugin(const char* file, const char* symbol, std::string_view hint) {
  PULSE_ASSIGN_OR_RETURN(const std::filesystem::path path, PathOf(file));
  if (!HasPlugin(file)) return Unimplemented("no {} beside the program, {}", file, hint);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library != nullptr ? ::dlsym(library, symbol) : nullptr;
  if (function == nullptr) return FailedPrecondition("{}", ::dlerror());
  return function;
}

}  // namespace pulse
