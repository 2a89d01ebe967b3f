// The table of device_kernels.h, filled with CUDA's launchers.
#pragma once

#include "kernels/device_kernels.h"

namespace pulse::kernels {

DeviceKernels CudaKernels();

}  // namespace pulse::kernels
