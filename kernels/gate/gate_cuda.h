// gate.h on a CUDA device, over a whole array: gate, residual and compaction in one pass.
#pragma once

#include "device/memory.h"
#include "kernels/cuda/compact.h"
#include "kernels/gate/gate_cuda_op.h"

namespace pulse::kernels {

// The contract of GateFn by the view of each element's run, and with values rounded: op over n
// elements in device memory, element-aligned; 16-byte alignment is faster. target (compact.h) gets
// the positions (it is op's too), op.values (room for all elements) the s of each; together with
// target.starts they are a sparse update. Nothing is ever dropped for want of room: whoever has
// less calls it for ranges of whole blocks of 2^20 elements. Enqueued on `stream`; the arrays must
// live until it has run. Bit-equal to the reference. A non-zero code: the launch was refused, and
// the residual is as before.
DeviceCode GateRunsCuda(const GateRunsOp& op, uint64_t n, const CompactTarget& target,
                        DeviceStream stream);

// Over n elements. Enqueued on `stream`.
DeviceCode PseudoGradientCuda(const PseudoGradientOp& op, uint64_t n, DeviceStream stream);

}  // namespace pulse::kernels
