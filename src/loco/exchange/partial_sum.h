// A finished part of the sum on its way from who added it to all others: whichever form is smaller,
// and the receiver need not be told before.
#pragma once

#include "core/bytes.h"
#include "core/status.h"
#include "loco/exchange/payload.h"

namespace pulse::loco {

// 4 bytes an element, or the round's codec's bytes for the elements that are not +0; then a byte of
// form. Nothing for an empty part. `sum`, of elements [begin, begin + size), holds no -0 (no sum
// that started at +0 does). Sums lie on the grid that their addends lie on.
Bytes EncodePartialSum(const PayloadCoding& coding, uint64_t begin, std::span<const float> sum);

// Overwrites `sum`, bit for bit. kDataLoss for any bytes that the encoder does not write for a part
// of this length; then `sum` is unspecified.
Status DecodePartialSum(const PayloadCoding& coding, uint64_t begin, ByteView bytes,
                        std::span<float> sum);

}  // namespace pulse::loco
