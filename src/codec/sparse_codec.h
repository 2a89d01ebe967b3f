// A trainer's sparse update <-> bytes, for the exchange between trainers.
#pragma once

#include <cstdint>
#include <span>

#include "codec/container.h"
#include "codec/sections.h"
#include "core/bytes.h"
#include "core/sparse_update.h"
#include "core/status.h"

namespace pulse {

// Positions as gaps, values as raw FP32 bits (any bits, NaN payloads and signs of zero included),
// in independent blocks. `update` must be valid. Deterministic up to the zstd release.
Bytes EncodeSparseUpdate(const SparseUpdateView& update);

// kDataLoss for any bytes that no encoder writes, or for an update over another number of elements.
// Memory stays within a small multiple of 8 bytes * elements, whatever the bytes claim.
StatusOr<SparseUpdate> DecodeSparseUpdate(ByteView bytes, uint64_t elements);

// The same of one block. Reuse one for many: it holds their scratch.
class FastBlockDecoder {
 public:
  // block: of a container of this codec, with at least one entry. Fills both arrays, as many as it
  // has entries.
  Status Decode(const ContainerView::Block& block, std::span<uint32_t> positions,
                std::span<float> values);

 private:
  SectionReader reader_;
};

}  // namespace pulse
