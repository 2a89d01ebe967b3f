#include "loco/device/device_digests.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/launch_plan.h"
#include "kernels/digest/digest_cuda.h"

namespace pulse::loco {

namespace {

uint64_t ChunksOf(uint64_t bytes) {
  return kernels::CeilDiv(kernels::BytesHashedOnDevice(bytes), kDigestChunkBytes);
}

}  // namespace

StatusOr<std::vector<std::vector<Digest>>> DeviceDigests::OfPieces(
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
  std::vector<std::vector<Digest>> digests;
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
    digests.push_back(std::move(chunks));
  }
  return digests;
}

StatusOr<ArrayDigests> DeviceDigests::Of(const ModelSchema& masters, DeviceSpan<const float> values,
                                         uint64_t begin, Deadline deadline) {
  std::vector<DeviceSpan<const uint8_t>> tensors;
  const uint64_t end = begin + values.size;
  for (size_t i = 0; i < masters.tensors().size(); ++i) {
    const uint64_t from = std::clamp(masters.offset(i), begin, end);
    const uint64_t to = std::clamp(masters.offset(i + 1), begin, end);
    tensors.push_back(DeviceBytes(values.subspan(from - begin, to - from)));
  }
  PULSE_ASSIGN_OR_RETURN(const auto chunks, OfPieces(tensors, deadline));
  ArrayDigests digests;
  for (const std::vector<Digest>& of_tensor : chunks) {
    digests.tensors.push_back(CombineChunks(of_tensor));
    digests.chunks.insert(digests.chunks.end(), of_tensor.begin(), of_tensor.end());
  }
  return digests;
}

StatusOr<Digest> DeviceDigests::OfBytes(DeviceSpan<const uint8_t> bytes, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto digests, OfPieces({&bytes, 1}, deadline));
  return CombineChunks(digests.front());
}

}  // namespace pulse::loco
