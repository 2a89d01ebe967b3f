// The bodies of apply.h, for the list and the tests alone.
#pragma once

#include "kernels/apply/apply.h"

namespace pulse::kernels {

void ApplyRef(ByteSpan words, size_t word_bytes, std::span<const uint32_t> positions,
              ByteView steps);

}  // namespace pulse::kernels
