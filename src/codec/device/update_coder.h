// Sparse updates in device memory <-> bytes on the host, in the codecs of codec/update_codec.h:
// only encoded bytes (before zstd, in codec fast) cross the bus, and they are those of the host's
// codec.
#pragma once

#include <vector>

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

  // As UpdateCodec::Decode; the arrays are this coder's, valid until its next Decode. kDataLoss.
  StatusOr<DeviceUpdate> Decode(const UpdateCodec& codec, ByteView bytes,
                                DeviceSpan<const float> theta, Deadline deadline);

  uint64_t device_bytes() const;

 private:
  StatusOr<DeviceSpan<uint32_t>> Scratch(uint64_t blocks, uint64_t words);
  kernels::SparseSmallEncodeOp SmallOp(uint64_t first, uint64_t last) const;
  StatusOr<Bytes> EncodeSmall(uint64_t first, uint64_t last, Deadline deadline);
  StatusOr<Bytes> EncodeFast(uint64_t first, uint64_t last, Deadline deadline);
  StatusOr<DeviceSpan<uint64_t>> Offsets(std::span<const uint64_t> offsets, Deadline deadline);
  // Room for the bytes of `blocks` blocks, zero, and what the caller needs to bring them down.
  StatusOr<DeviceSpan<uint8_t>> Payloads(uint64_t bytes);

  DeviceWork& work_;
  const kernels::DeviceKernels& kernels_;
  UpdateCodec codec_;
  DeviceUpdate update_;  // measured
  DeviceSpan<const float> theta_;
  std::vector<uint32_t> sizes_;  // by block: of the payload; fast: of the gaps
  DeviceRoom scratch_, sizes_room_, offsets_room_, payload_room_;
  DeviceRoom in_bytes_, in_starts_, in_offsets_, in_positions_, in_values_, in_errors_, in_sizes_;
};

}  // namespace pulse
