#include "kernels/adamw/adamw_cuda.h"
#include "kernels/adamw/adamw_cuda_op.h"
#include "kernels/cuda/elementwise.cuh"

namespace pulse::kernels {
namespace {

bool SameLength(const DeviceAdamW& a) {
  return a.m.size == a.w.size && a.v.size == a.w.size && a.g.size == a.w.size;
}

}  // namespace

DeviceCode AdamWCuda(const AdamWScalars& scalars, const DeviceAdamW& arrays, DeviceStream stream) {
  if (!SameLength(arrays)) return cudaErrorInvalidValue;
  return LaunchElements<4>(
      AdamWOp{scalars, arrays.w.data, arrays.m.data, arrays.v.data, arrays.g.data}, arrays.w.size,
      AllAligned(arrays.w.data, arrays.m.data, arrays.v.data, arrays.g.data), stream);
}

}  // namespace pulse::kernels
