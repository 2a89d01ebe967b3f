// Sparse updates in device memory <-> bytes on the host, in the codecs of codec/update_codec.h:
// only encoded bytes (before zstd, in codec fast) cross the bus, and they are those of the host's
// codec.
#pragma once

#include <vector>

#include "codec/container.h"
#include "codec/update_codec.h"
#include "core/bytes.h"
#include "device/work.h"
#include "kernels/device_kernels.h"

namespace pulse {

// Of core/sparse_update.h, with its arrays on the device; it owns nothing.
struct DeviceUpdate {
  uint64_t elements = 0;
  std::vector<uint64_t> starts = {0};        // on the host too: they decide sizes
  DeviceSpan<const uint64_t> device_starts;  // the same
  DeviceSpan<const uint32_t> positions;
  DeviceSpan<const float> values;

  uint64_t entries() const { return starts.back(); }
  kernels::DeviceSparseUpdate ToAdd() const { return {device_starts, positions, values}; }
};

// Scratch grows to what the largest call needed. Not thread-safe. work and kernels must outlive it.
class DeviceUpdateCoder {
 public:
  DeviceUpdateCoder(DeviceWork& work, const kernels::DeviceKernels& kernels)
      : work_(work), kernels_(kernels) {}

  // Finds out how large every block of `update` gets, for Encode; waits for it. theta: as many
  // elements. Both must stay until the last Encode.
  Status Measure(const UpdateCodec& codec, const DeviceUpdate& update,
                 DeviceSpan<const float> theta, Deadline deadline);

  // The bytes of blocks [first, last) of the measured update, as UpdateCodec::Encode writes them
  // for an update of those elements alone.
  StatusOr<Bytes> Encode(uint64_t first, uint64_t last, Deadline deadline);

  // The same bytes, left in `room` with space for `behind` more; enqueued. Codec small alone: fast
  // ends with zstd, on the host.
  StatusOr<DeviceSpan<uint8_t>> EncodeOnDevice(uint64_t first, uint64_t last, uint64_t behind,
                                               DeviceRoom& room, Deadline deadline);

  // As UpdateCodec::Decode; the arrays are this coder's, valid until it decodes again. kDataLoss.
  StatusOr<DeviceUpdate> Decode(const UpdateCodec& codec, ByteView bytes,
                                DeviceSpan<const float> theta, Deadline deadline);
  // The same of bytes in device memory; codec small alone.
  StatusOr<DeviceUpdate> DecodeOnDevice(const UpdateCodec& codec, DeviceSpan<const uint8_t> bytes,
                                        DeviceSpan<const float> theta, Deadline deadline);

  uint64_t device_bytes() const;

 private:
  StatusOr<DeviceSpan<uint32_t>> Scratch(uint64_t blocks, uint64_t words);
  kernels::SparseSmallEncodeOp SmallOp(uint64_t first, uint64_t last) const;
  StatusOr<Bytes> EncodeSmall(uint64_t first, uint64_t last, Deadline deadline);
  StatusOr<Bytes> EncodeFast(uint64_t first, uint64_t last, Deadline deadline);
  StatusOr<DeviceSpan<uint64_t>> Offsets(std::span<const uint64_t> offsets, Deadline deadline);
  // Room for so many bytes, zero.
  StatusOr<DeviceSpan<uint8_t>> Zeros(DeviceRoom& room, uint64_t bytes);

  // Arrays for what a container claims to hold.
  StatusOr<DeviceUpdate> Claimed(const ContainerView& view, uint64_t elements, Deadline deadline);
  Status DecodeFast(const ContainerView& view, const DeviceUpdate& update, Deadline deadline);
  // bytes: all of them.
  Status DecodeSmall(unsigned coarser, const ContainerView& view, DeviceSpan<const uint8_t> bytes,
                     DeviceSpan<const float> theta, const DeviceUpdate& update, Deadline deadline);
  Status CheckErrors(DeviceSpan<const uint32_t> errors, Deadline deadline);

  DeviceWork& work_;
  const kernels::DeviceKernels& kernels_;
  UpdateCodec codec_;
  DeviceUpdate update_;  // measured
  DeviceSpan<const float> theta_;
  std::vector<uint32_t> sizes_;  // by block: of the payload; fast: of the gaps
  DeviceRoom scratch_, sizes_room_, offsets_room_, payload_room_;
  DeviceRoom in_bytes_, in_starts_, in_offsets_, in_errors_, in_sizes_;
  DeviceRoom in_positions_, in_values_;
  DeviceSpan<uint32_t> positions_;  // of the update that is being decoded
  DeviceSpan<float> values_;
};

}  // namespace pulse
