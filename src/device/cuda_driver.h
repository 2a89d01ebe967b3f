// The CUDA runtime behind the table of driver.h, and what this machine has of it.
#pragma once

#include <string>

#include "device/driver.h"

namespace pulse {

DeviceDriver CudaDriver();

// Selects `device` for the calling thread. kFailedPrecondition, in one line, where there is none or
// the driver does not fit; kInvalidArgument for a number that is none.
Status SelectCudaDevice(const DeviceDriver& driver, int device);

// "CUDA 13.0": the runtime that is compiled in.
std::string CudaRuntime();

// "CUDA 13.0: 1 device, NVIDIA H200 (sm_90, 139.8 GiB)" or "CUDA 13.0: no device (<CUDA's words>)".
// Never fails: for --version, and for tests to say why they are skipped.
struct CudaFacts {
  int devices = 0;
  std::string words;
};
CudaFacts ProbeCuda();

}  // namespace pulse
