// How a trainer's flat arrays are cut over its ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pulse::loco {

// Elements [begin, end) of the flat arrays.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t length() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// Shards start at multiples of this: a cache line.
inline constexpr uint64_t kShardElements = 16;

// The range of shard `shard` of `shards`: equal lengths, but the last ones may be shorter or empty.
inline ElementRange ShardRange(uint64_t elements, uint32_t shards, uint32_t shard) {
  const uint64_t each = (elements / shards + kShardElements) / kShardElements * kShardElements;
  const uint64_t length = shards == 1 ? elements : each;
  const uint64_t begin = std::min(length * shard, elements);
  return {begin, std::min(begin + length, elements)};
}

}  // namespace pulse::loco
