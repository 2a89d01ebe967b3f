#include "loco/device/device_digests.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/launch_plan.h"
#include "kernels/digest/digest_cuda.h"

namespace pulse::loco {

namespace {

uint64_t ChunksOf(uint64_t bytes) {
  return kernels::CeilDiv(kernels::BytesHashedOnDevice(bytes), kDigestChunkBytes);
}

}  // namespace

StatusOr<std::vector<Digest>> DeviceDigests::OfPieces(
    std::span<const DeviceSpan<const uint8_t>> pieces, Deadline deadline) {
  uint64_t all = 0;
  for (const auto& piece : pieces) all += ChunksOf(piece.size);
  PULSE_ASSIGN_OR_RETURN(const auto room,
                         digests_.Get<uint8_t>(work_.driver(), all * sizeof(Digest)));
  uint64_t at = 0;
  for (const auto& piece : pieces) {
    const uint64_t chunks = ChunksOf(piece.size);
    if (chunks == 0) continue;
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.chunk_digests(piece.first(kernels::BytesHashedOnDevice(piece.size)),
                                         room.subspan(at * sizeof(Digest), chunks * sizeof(Digest)),
                                         work_.stream()),
                  "hashing chunks"));
    at += chunks;
  }
  Bytes found(all * sizeof(Digest));
  PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(room, std::span(found), deadline));
  std::vector<Digest> digests;
  at = 0;
  for (const auto& piece : pieces) {
    std::vector<Digest> chunks(ChunksOf(piece.size));
    for (Digest& chunk : chunks) {
      std::memcpy(chunk.bytes.data(), found.data() + sizeof(Digest) * at++, sizeof(Digest));
    }
    const uint64_t hashed = kernels::BytesHashedOnDevice(piece.size);
    Bytes rest(piece.size - hashed);
    if (!rest.empty()) {
      PULSE_RETURN_IF_ERROR(
          work_.Down<uint8_t>(piece.subspan(hashed, rest.size()), std::span(rest), deadline));
      chunks.push_back(DigestOf(rest));
    }
    digests.push_back(CombineChunks(chunks));
  }
  return digests;
}

StatusOr<std::vector<Digest>> DeviceDigests::Of(const ModelSchema& masters,
                                                DeviceSpan<const float> values, Deadline deadline) {
  std::vector<DeviceSpan<const uint8_t>> tensors;
  for (size_t i = 0; i < masters.tensors().size(); ++i) {
    const uint64_t begin = masters.offset(i), end = masters.offset(i + 1);
    tensors.push_back(DeviceBytes(values.subspan(begin, end - begin)));
  }
  return OfPieces(tensors, deadline);
}

StatusOr<Digest> DeviceDigests::OfBytes(DeviceSpan<const uint8_t> bytes, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto digests, OfPieces({&bytes, 1}, deadline));
  return digests.front();
}

}  // namespace pulse::loco
