// The synthetic trainer's gradient on a CUDA device.
#pragma once

#include "device/memory.h"
#include "kernels/synthetic/synthetic_cuda_op.h"

namespace pulse::kernels {

// Overwrites op.n floats at op.gradient. Enqueued on `stream`. The bits are the host's. A non-zero
// code: the launch was refused, and nothing is enqueued.
DeviceCode SyntheticGradientCuda(const SyntheticGradientOp& op, DeviceStream stream);

}  // namespace pulse::kernels
