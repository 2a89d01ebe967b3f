// apply.h on a CUDA device, over a whole tensor: positions are relative to blocks of 2^20 words.
#pragma once

#include "device/memory.h"

namespace pulse::kernels {

// words[b * 2^20 + positions[i]] += steps[i] for i in [starts[b], starts[b + 1]), modulo the word's
// width of word_bytes (2 or 4). words and steps: bytes, aligned to the word. starts: one more
// than the tensor has blocks. positions: strictly ascending in a block and in range (the caller has
// checked). Enqueued on `stream`; the arrays must live until it has run. Equal to the reference.
// A non-zero code: the launch was refused, and nothing is enqueued.
DeviceCode ApplyCuda(DeviceSpan<uint8_t> words, uint32_t word_bytes,
                     DeviceSpan<const uint64_t> starts, DeviceSpan<const uint32_t> positions,
                     DeviceSpan<const uint8_t> steps, DeviceStream stream);

}  // namespace pulse::kernels
