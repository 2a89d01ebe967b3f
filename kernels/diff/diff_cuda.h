// diff.h on a CUDA device, over a whole tensor.
#pragma once

#include "device/memory.h"
#include "kernels/cuda/compact.h"

namespace pulse::kernels {

// before and after: n words of word_bytes (2 or 4), aligned to the word; 16-byte alignment is
// faster. target (compact.h) gets the positions of the words that differ, as bits.
// Enqueued on `stream`; the arrays must live until it has run. Equal to the reference.
// A non-zero code: the launch was refused; what target holds is then unspecified.
DeviceCode DiffCuda(DeviceSpan<const uint8_t> before, DeviceSpan<const uint8_t> after,
                    uint32_t word_bytes, const CompactTarget& target, DeviceStream stream);

}  // namespace pulse::kernels
