#include "app/facts.h"

#include <fmt/format.h>

#include "app/cuda_parts.h"
#include "app/nccl_plugin.h"
#include "app/torch_plugin.h"
#include "collective/mpi/mpi_session.h"
#include "kernels/arithmetic/arithmetic.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

#ifdef PULSE_NCCL_VERSION
constexpr std::string_view kNcclCompiledIn = "NCCL " PULSE_NCCL_VERSION;
#else
constexpr std::string_view kNcclCompiledIn = "no NCCL";
#endif

std::string NcclPresent() {
#ifdef PULSE_NCCL_VERSION
  const auto version = NcclVersion();
  return version.ok() ? *version : fmt::format("no NCCL ({})", ToStd(version.status().message()));
#else
  return "NCCL: not looked for, as this build has none";
#endif
}

}  // namespace

std::string VersionFacts() {
  std::string text = fmt::format("pulseloco {}\n", PULSE_VERSION);
  const auto line = [&](std::string_view kind, std::string_view fact) {
    text += fmt::format("{:<12} {}\n", kind, fact);
  };
  line("compiled in", fmt::format("kernels reference, simd; arithmetic contract {}",
                                  kernels::kArithmeticContractVersion));
  line("compiled in", MpiFacts());
  line("compiled in", CudaCompiledIn());
  line("compiled in", kNcclCompiledIn);
  line("present", fmt::format("simd kernels run with {}", kernels::SimdTarget()));
  line("present", CudaPresent());
  line("present", NcclPresent());
  line("present", HasTorchPlugin() ? "LibTorch trainer (loaded when a run asks for it)"
                                   : "no LibTorch trainer beside the program");
  text.pop_back();
  return text;
}

}  // namespace pulse
