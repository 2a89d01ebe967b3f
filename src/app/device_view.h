// The view of weights that live on a device, kept on the host by their changes: a version's delta
// is encoded on the device, its bytes come over the bus, and the host's copy is moved by them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "codec/device/delta_coder.h"
#include "loco/device/device_arrays.h"
#include "sync/view.h"

namespace pulse {

// Host memory: the view, and the encoded bytes of one version. Device memory: the view, the largest
// tensor's view, and DeviceDeltaCoder's scratch. Update is for the loop's thread; the rest is
// thread-safe.
class DeviceView final : public ViewSource {
 public:
  // arrays: between rounds, with theta; it and the schema must outlive this. codec: of the deltas.
  // Brings the whole view over the bus, once. kUnimplemented for a view other than BF16 and F32.
  static StatusOr<std::unique_ptr<DeviceView>> Make(loco::DeviceArrays& arrays,
                                                    const kernels::KernelTable& host_kernels,
                                                    const ModelSchema& schema, CodecId codec,
                                                    Deadline deadline);

  // The view becomes that of the device's present theta. After an error it is unspecified.
  Status Update(Deadline deadline);

  const ModelSchema& schema() const override { return schema_; }
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override;
  // What the last Update encoded, where the range is a whole cell and the codec its own.
  std::optional<WordDelta> DeltaOf(const TensorRange& range, CodecId codec) const override;

 private:
  DeviceView(loco::DeviceArrays& arrays, const kernels::KernelTable& host_kernels,
             const ModelSchema& schema, CodecId codec);
  Status TakeWhole(Deadline deadline);
  Status UpdateTensor(size_t tensor, Deadline deadline);
  // The tensor's present view on the device: theta itself, or its cast in scratch.
  StatusOr<DeviceSpan<const uint8_t>> PresentView(size_t tensor);
  Status ApplyOnHost(const TensorRange& cell, DType dtype, ByteView delta);

  loco::DeviceArrays& arrays_;
  const kernels::KernelTable& host_kernels_;
  const ModelSchema& schema_;
  const CodecId codec_;
  DeviceDeltaCoder coder_;
  std::vector<uint64_t> begins_;  // of tensors in bytes_ and on the device; multiples of 16
  Bytes bytes_;
  DeviceRoom published_room_, cast_room_;
  DeviceSpan<uint8_t> published_;
  std::map<TensorRange, WordDelta> deltas_;
};

}  // namespace pulse
