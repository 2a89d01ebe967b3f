// How a message of 64-bit length is cut into chunks that a transport with small counts can move.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pulse {

// total_bytes cut into chunks of chunk_bytes (at least 1), the last one shorter; none if it is 0.
// Both ends of a message compute the same plan from the same two numbers. A value, no allocation.
class ChunkPlan {
 public:
  constexpr ChunkPlan(uint64_t total_bytes, uint64_t chunk_bytes)
      : total_bytes_(total_bytes), chunk_bytes_(chunk_bytes) {}

  constexpr uint64_t count() const {
    return total_bytes_ / chunk_bytes_ + (total_bytes_ % chunk_bytes_ != 0 ? 1 : 0);
  }
  // index < count().
  constexpr uint64_t OffsetOf(uint64_t index) const { return index * chunk_bytes_; }
  constexpr uint64_t BytesOf(uint64_t index) const {
    return std::min(chunk_bytes_, total_bytes_ - OffsetOf(index));
  }

 private:
  uint64_t total_bytes_;
  uint64_t chunk_bytes_;
};

// The part of total_bytes that falls to `index` of `parts`: contiguous, in order, sizes at most one
// byte apart.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
constexpr ByteRange EvenShare(uint64_t total_bytes, uint64_t parts, uint64_t index) {
  const uint64_t share = total_bytes / parts;
  const uint64_t longer = total_bytes % parts;  // the first `longer` parts hold one byte more
  return {index * share + std::min(index, longer), share + (index < longer ? 1 : 0)};
}

}  // namespace pulse
