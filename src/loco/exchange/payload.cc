#include "loco/exchange/payload.h"

namespace pulse::loco {

Bytes EncodePayload(const PayloadCoding& coding, const Contribution& mine, uint64_t begin,
                    uint64_t end) {
  if (mine.absent() || begin == end) return {};
  const auto theta = coding.ThetaOf(begin, end);
  if (mine.HasBlocksOf(begin, end)) {  // as they lie, without a copy
    return coding.codec.Encode(coding.kernels, SparseUpdateView(*mine.sparse).Part(begin, end),
                               theta, coding.classes);
  }
  return coding.codec.Encode(coding.kernels, Slice(mine, begin, end), theta, coding.classes);
}

uint64_t BytesOfOthers(std::span<const Bytes> messages, int rank) {
  uint64_t bytes = 0;
  for (size_t r = 0; r < messages.size(); ++r) {
    if (static_cast<int>(r) != rank) bytes += messages[r].size();
  }
  return bytes;
}

}  // namespace pulse::loco
