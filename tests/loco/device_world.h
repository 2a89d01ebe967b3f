// A rank's mocked device with emulated kernels, and the loop's arrays on it.
#pragma once

#include "device/mocked_device.h"
#include "kernels/cuda/emulated_kernels.h"
#include "loco/device/device_arrays.h"
#include "tests/loco/job.h"

namespace pulse::loco {

// Small ranges and slots, so that everything goes in pieces.
struct EmulatedRank {
  EmulatedRank(Trainer& host_trainer, bool backwards)
      : kernels(kernels::EmulatedKernels(device, backwards)),
        trainer(dynamic_cast<SyntheticTrainer&>(host_trainer), kernels.synthetic_gradient) {}

  MockedDevice device;
  DeviceDriver driver = device.Table();
  kernels::DeviceKernels kernels;
  DeviceSyntheticTrainer trainer;
  RealClock clock;
};

inline MakeArrays EmulatedArrays(int rank, Trainer& trainer) {
  auto world = std::make_shared<EmulatedRank>(trainer, rank % 2 == 1);
  return [world](const ArraysParts& parts) -> StatusOr<std::unique_ptr<Arrays>> {
    return DeviceArrays::Make(parts, {world->driver, world->kernels, world->trainer, world->clock},
                              {.staging = {.slots = 2, .slot_bytes = 10'000}, .gate_blocks = 1});
  };
}

}  // namespace pulse::loco
