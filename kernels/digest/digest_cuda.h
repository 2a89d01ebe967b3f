// The chunk digests of core/digest.h on a CUDA device.
#pragma once

#include "device/memory.h"

namespace pulse::kernels {

// digests[16 * c ...] becomes XXH3-128 of bytes [c * 2^20, (c + 1) * 2^20), in canonical order:
// what CombineChunks of core/digest.h takes. bytes: whole chunks alone (the caller hashes a shorter
// last one itself: less than 1 MiB a tensor), at any alignment; 16 bytes is fastest. digests:
// 8-byte aligned, 16 bytes a chunk. Enqueued on `stream`; the arrays must live until it has run.
// Equal to xxHash. A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode ChunkDigestsCuda(DeviceSpan<const uint8_t> bytes, DeviceSpan<uint8_t> digests,
                            DeviceStream stream);

}  // namespace pulse::kernels
