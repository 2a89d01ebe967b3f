// The bytes of parts of sparse updates, as all exchanges that send such put them on the wire.
#pragma once

#include <vector>

#include "core/bytes.h"
#include "core/status.h"
#include "loco/exchange/contribution.h"

namespace pulse::loco {

// Elements [begin, end) of a contribution. Nothing if it is absent or the range is empty.
Bytes EncodePayload(const Contribution& mine, uint64_t begin, uint64_t end);

// The updates over `elements` elements that trainers sent, by trainer; empty ones for those with
// contributes[k] == 0. kDataLoss names the trainer whose bytes can't be read.
StatusOr<std::vector<SparseUpdate>> DecodePayloads(std::vector<Bytes> payloads,
                                                   std::span<const uint8_t> contributes,
                                                   uint64_t elements);

// What came from other ranks.
uint64_t BytesOfOthers(std::span<const Bytes> messages, int rank);

}  // namespace pulse::loco
