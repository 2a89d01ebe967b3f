// The bodies of diff.h, for the list and the tests alone.
#pragma once

#include "kernels/diff/diff.h"

namespace pulse::kernels {

size_t DiffRef(ByteView before, ByteView after, size_t word_bytes, uint32_t* positions);
size_t DiffSimd(ByteView before, ByteView after, size_t word_bytes, uint32_t* positions);

}  // namespace pulse::kernels
