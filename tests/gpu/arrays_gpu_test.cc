// The loop's conformance suite with its arrays on GPUs: a training run there ends with the bytes of
// the CPU's. Ranks share the cards there are.
#include "device/cuda_driver.h"
#include "kernels/cuda/cuda_kernels.h"
#include "loco/device/device_arrays.h"
#include "tests/loco/arrays_conformance.h"

namespace pulse::loco {
namespace {

struct CudaRank {
  CudaRank(Trainer& host_trainer)
      : trainer(dynamic_cast<SyntheticTrainer&>(host_trainer), kernels.synthetic_gradient) {}

  const DeviceDriver driver = CudaDriver();
  const kernels::DeviceKernels kernels = kernels::CudaKernels();
  DeviceSyntheticTrainer trainer;
  RealClock clock;
};

MakeArrays CudaArrays(int rank, Trainer& trainer) {
  auto world = std::make_shared<CudaRank>(trainer);
  const Status selected = SelectCudaDevice(world->driver, rank % ProbeCuda().devices);
  return [world, selected](const ArraysParts& parts) -> StatusOr<std::unique_ptr<Arrays>> {
    PULSE_RETURN_IF_ERROR(selected);
    return DeviceArrays::Make(parts, {world->driver, world->kernels, world->trainer, world->clock},
                              {.gate_blocks = 1});
  };
}

std::string Missing() {
  const CudaFacts facts = ProbeCuda();
  return facts.devices > 0 ? std::string() : facts.words;
}

INSTANTIATE_TEST_SUITE_P(Places, ArraysConformance,
                         testing::Values(ArraysPlace{"Cuda", CudaArrays, Missing,
                                                     std::getenv("PULSE_GPU_REQUIRED") != nullptr}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace pulse::loco
