// CUDA as the program has it. Everything here can be called in a build without: it then says so.
#pragma once

#include <string>

#include "collective/communicator.h"
#include "core/status.h"
#include "device/driver.h"
#include "kernels/device_kernels.h"

namespace pulse {

// "CUDA 13.0 for sm_80, sm_90", or "no CUDA": what was compiled in.
std::string CudaCompiledIn();

// "CUDA: 1 device, NVIDIA H200 ...", or "CUDA: no device (<why>)".
std::string CudaPresent();

// How many ranks below this one share its host.
uint64_t RankOnHost(const Communicator& communicator);

struct Cuda {
  DeviceDriver driver;
  kernels::DeviceKernels kernels;
};

// CUDA, with a device selected for the calling thread: rank_on_host modulo the number of devices.
// One line says what to do where there is none: kUnimplemented in a build without CUDA,
// kFailedPrecondition without a device.
StatusOr<Cuda> OpenCuda(uint64_t rank_on_host);

}  // namespace pulse
