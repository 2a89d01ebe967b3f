// The canonical sum of encoded updates, decoded a block at a time: a block of `sum` passes through
// the cache once, and what theta tells of it is found out once for all trainers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/bytes.h"
#include "core/status.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/contribution.h"
#include "loco/exchange/payload.h"

namespace pulse::loco {

// What one rank has of all trainers' updates over one range of elements.
struct FoldInput {
  std::span<const Bytes> payloads;       // by trainer
  std::span<const uint8_t> contributes;  // those with 0 are not looked at
  // This rank's trainer, and what it contributes: its payload need not be decoded where the range
  // is of whole blocks. The values on the wire are those, bit for bit.
  size_t me;
  const Contribution& mine;
};

// Overwrites `sum`, elements [begin, begin + sum.size()) of the whole array. kDataLoss names the
// trainer whose bytes can't be read; then `sum` is unspecified.
Status FoldPayloads(const PayloadCoding& coding, const Sites& sites, const FoldInput& in,
                    uint64_t begin, std::span<float> sum);

}  // namespace pulse::loco
