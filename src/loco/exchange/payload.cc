#include "loco/exchange/payload.h"

#include "codec/sparse_codec.h"

namespace pulse::loco {

Bytes EncodePayload(const Contribution& mine, uint64_t begin, uint64_t end) {
  if (mine.absent() || begin == end) return {};
  if (mine.sparse != nullptr && begin == 0 && end == mine.sparse->elements) {
    return EncodeSparseUpdate(*mine.sparse);  // as it lies, without a copy
  }
  return EncodeSparseUpdate(Slice(mine, begin, end));
}

StatusOr<std::vector<SparseUpdate>> DecodePayloads(std::vector<Bytes> payloads,
                                                   std::span<const uint8_t> contributes,
                                                   uint64_t elements) {
  std::vector<SparseUpdate> updates(payloads.size());
  for (size_t k = 0; k < payloads.size(); ++k) {
    if (contributes[k] == 0 || elements == 0) continue;
    auto update = DecodeSparseUpdate(payloads[k], elements);
    if (!update.ok()) return Annotate(update.status(), fmt::format("update of trainer {}", k));
    updates[k] = *std::move(update);
    payloads[k] = Bytes();
  }
  return updates;
}

uint64_t BytesOfOthers(std::span<const Bytes> messages, int rank) {
  uint64_t bytes = 0;
  for (size_t r = 0; r < messages.size(); ++r) {
    if (static_cast<int>(r) != rank) bytes += messages[r].size();
  }
  return bytes;
}

}  // namespace pulse::loco
