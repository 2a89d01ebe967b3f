#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/scatter.cuh"
#include "kernels/reduce/reduce_cuda.h"
#include "kernels/reduce/reduce_cuda_op.h"

namespace pulse::kernels {

DeviceCode AddSparseCuda(DeviceSpan<float> sum, const DeviceSparseUpdate& update,
                         DeviceStream stream) {
  if (update.starts.size != CeilDiv(sum.size, kScatterBlockElements) + 1 ||
      update.positions.size != update.values.size) {
    return cudaErrorInvalidValue;
  }
  const AddSparseOp op{sum.data, update.starts.data, update.positions.data, update.values.data};
  return LaunchScatter(op, update.starts.size - 1, stream);
}

DeviceCode AddDenseCuda(DeviceSpan<float> sum, DeviceSpan<const float> addend,
                        DeviceStream stream) {
  if (sum.size != addend.size) return cudaErrorInvalidValue;
  return LaunchElements<4>(AddDenseOp{sum.data, addend.data}, sum.size,
                           AllAligned(sum.data, addend.data), stream);
}

DeviceCode MeanCuda(DeviceSpan<float> sum, float trainers, DeviceStream stream) {
  return LaunchElements<4>(MeanOp{sum.data, trainers}, sum.size, AllAligned(sum.data), stream);
}

}  // namespace pulse::kernels
