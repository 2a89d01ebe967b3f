#include "loco/exchange/payload.h"

namespace pulse::loco {

Bytes EncodePayload(const PayloadCoding& coding, const Contribution& mine, uint64_t begin,
                    uint64_t end) {
  if (mine.absent() || begin == end) return {};
  const auto theta = coding.ThetaOf(begin, end);
  if (mine.sparse != nullptr && begin == 0 && end == mine.sparse->elements) {
    return coding.codec.Encode(coding.kernels, *mine.sparse, theta);  // as it lies, without a copy
  }
  return coding.codec.Encode(coding.kernels, Slice(mine, begin, end), theta);
}

StatusOr<std::vector<SparseUpdate>> DecodePayloads(const PayloadCoding& coding,
                                                   std::vector<Bytes> payloads,
                                                   std::span<const uint8_t> contributes,
                                                   uint64_t begin, uint64_t end) {
  std::vector<SparseUpdate> updates(payloads.size());
  for (size_t k = 0; k < payloads.size(); ++k) {
    if (contributes[k] == 0 || begin == end) continue;
    auto update =
        coding.codec.Decode(coding.kernels, payloads[k], end - begin, coding.ThetaOf(begin, end));
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
