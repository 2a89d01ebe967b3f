#include "app/cuda_parts.h"

#ifdef PULSE_HAS_CUDA
#include "device/cuda_driver.h"
#include "kernels/cuda/cuda_kernels.h"
#endif

namespace pulse {

uint64_t RankOnHost(const Communicator& communicator) {
  uint64_t below = 0;
  for (int r = 0; r < communicator.rank(); ++r) {
    below += communicator.HostOf(r) == communicator.HostOf(communicator.rank()) ? 1 : 0;
  }
  return below;
}

#ifdef PULSE_HAS_CUDA

std::string CudaCompiledIn() {
  return fmt::format("{} for {}", CudaRuntime(), PULSE_CUDA_ARCHITECTURES);
}

std::string CudaPresent() {
  return ProbeCuda().words;
}

StatusOr<Cuda> OpenCuda(uint64_t rank_on_host) {
  DeviceDriver driver = CudaDriver();
  int count = 0;
  const bool counted = driver.count_devices(&count) == 0 && count > 0;
  const uint64_t device = counted ? rank_on_host % static_cast<uint64_t>(count) : 0;
  PULSE_RETURN_IF_ERROR(SelectCudaDevice(driver, static_cast<int>(device)));
  return Cuda{std::move(driver), kernels::CudaKernels()};
}

#else

std::string CudaCompiledIn() {
  return "no CUDA";
}

std::string CudaPresent() {
  return "CUDA: not looked for, as this build has none";
}

StatusOr<Cuda> OpenCuda(uint64_t /*rank_on_host*/) {
  return Unimplemented("this build has no CUDA: build where nvcc is found, or use --device cpu");
}

#endif

}  // namespace pulse
