// The table of device_kernels.h for a mocked device: launchers that enqueue the device bodies, run
// thread by thread on the host. All of them but CUDA's indices, scans, atomics and look-back is
// thereby tested without a device. For tests.
#pragma once

#include "device/mocked_device.h"
#include "kernels/device_kernels.h"

namespace pulse::kernels {

// device: must outlive the table. backwards: teams' threads in the other order.
DeviceKernels EmulatedKernels(MockedDevice& device, bool backwards = false);

}  // namespace pulse::kernels
