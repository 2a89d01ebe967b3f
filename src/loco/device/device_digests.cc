#include "loco/device/device_digests.h"

#include <algorithm>
#include <cstring>

namespace pulse::loco {

StatusOr<std::vector<Digest>> DeviceDigests::Of(const ModelSchema& masters,
                                                DeviceSpan<const float> values, Deadline deadline) {
  const DeviceSpan<const uint8_t> bytes = DeviceBytes(values);
  const size_t tensors = masters.tensors().size();
  const auto begin_of = [&](size_t i) { return masters.offset(i) * sizeof(float); };
  const auto chunks_of = [&](size_t i) {
    return (begin_of(i + 1) - begin_of(i)) / kDigestChunkBytes;
  };
  uint64_t all = 0;
  for (size_t i = 0; i < tensors; ++i) all += chunks_of(i);
  PULSE_ASSIGN_OR_RETURN(const auto room,
                         digests_.Get<uint8_t>(work_.driver(), all * sizeof(Digest)));
  uint64_t at = 0;
  for (size_t i = 0; i < tensors; ++i) {
    const uint64_t chunks = chunks_of(i);
    if (chunks == 0) continue;
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.chunk_digests(bytes.subspan(begin_of(i), chunks * kDigestChunkBytes),
                                         room.subspan(at * sizeof(Digest), chunks * sizeof(Digest)),
                                         work_.stream()),
                  "hashing chunks"));
    at += chunks;
  }
  Bytes found(all * sizeof(Digest));
  PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(room, std::span(found), deadline));
  std::vector<Digest> digests;
  at = 0;
  for (size_t i = 0; i < tensors; ++i) {
    std::vector<Digest> chunks(chunks_of(i));
    for (Digest& chunk : chunks) {
      std::memcpy(chunk.bytes.data(), found.data() + sizeof(Digest) * at++, sizeof(Digest));
    }
    const uint64_t whole = begin_of(i) + chunks.size() * kDigestChunkBytes;
    Bytes rest(begin_of(i + 1) - whole);
    if (!rest.empty()) {
      PULSE_RETURN_IF_ERROR(
          work_.Down<uint8_t>(bytes.subspan(whole, rest.size()), std::span(rest), deadline));
      chunks.push_back(DigestOf(rest));
    }
    digests.push_back(CombineChunks(chunks));
  }
  return digests;
}

StatusOr<Digest> DeviceDigests::OfBytes(DeviceSpan<const uint8_t> bytes, Deadline deadline) {
  const uint64_t whole = bytes.size / kDigestChunkBytes;
  std::vector<Digest> chunks(whole);
  if (whole > 0) {
    PULSE_ASSIGN_OR_RETURN(const auto room,
                           digests_.Get<uint8_t>(work_.driver(), whole * sizeof(Digest)));
    PULSE_RETURN_IF_ERROR(work_.Did(
        kernels_.chunk_digests(bytes.first(whole * kDigestChunkBytes), room, work_.stream()),
        "hashing chunks"));
    PULSE_RETURN_IF_ERROR(
        work_.Down<uint8_t>(room, {chunks.front().bytes.data(), whole * sizeof(Digest)}, deadline));
  }
  Bytes rest(bytes.size % kDigestChunkBytes);
  if (!rest.empty()) {
    PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(bytes.subspan(whole * kDigestChunkBytes, rest.size()),
                                              std::span(rest), deadline));
    chunks.push_back(DigestOf(rest));
  }
  return CombineChunks(chunks);
}

}  // namespace pulse::loco
