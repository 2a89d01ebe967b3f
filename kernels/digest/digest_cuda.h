// The chunk digests of core/digest.h on a CUDA device.
#pragma once

#include "device/memory.h"
#include "kernels/digest/xxh3_chunk.h"

namespace pulse::kernels {

// How many of so many bytes, from the first on, are hashed on the device: all, or all but a last
// chunk of at most 240 bytes, which is the caller's.
constexpr uint64_t BytesHashedOnDevice(uint64_t bytes) {
  const uint64_t rest = bytes % kXxh3ChunkBytes;
  return rest < kXxh3ShortestChunk ? bytes - rest : bytes;
}

// digests[16 * c ...] becomes XXH3-128 of bytes [c * 2^20, (c + 1) * 2^20), in canonical order:
// what CombineChunks of core/digest.h takes. bytes: as many as BytesHashedOnDevice says, at any
// alignment; 16 bytes is fastest. digests: 8-byte aligned, 16 bytes a chunk. Enqueued on `stream`;
// the arrays must live until it has run. Equal to xxHash. A non-zero code: the launch was refused,
// and nothing is enqueued.
DeviceCode ChunkDigestsCuda(DeviceSpan<const uint8_t> bytes, DeviceSpan<uint8_t> digests,
                            DeviceStream stream);

}  // namespace pulse::kernels
