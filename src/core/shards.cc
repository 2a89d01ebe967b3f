#include "core/shards.h"

#include <algorithm>

#include "core/digest.h"

namespace pulse {
namespace {

// The first element at or behind `at` where a chunk begins, or the end.
uint64_t ChunkFrom(const ModelSchema& schema, uint64_t at) {
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const uint64_t begin = schema.offset(i), end = schema.offset(i + 1);
    if (at <= begin) return begin;
    if (at >= end) continue;
    const uint64_t chunk = kDigestChunkBytes / SizeOf(schema.tensors()[i].dtype);
    return std::min(begin + (at - begin + chunk - 1) / chunk * chunk, end);
  }
  return schema.elements();
}

}  // namespace

std::vector<ElementRange> CutIntoShards(const ModelSchema& schema, uint32_t shards) {
  const uint64_t all = schema.elements();
  // all * (shard + 1) / shards, without overflow.
  const auto share = [&](uint64_t shard) {
    return all / shards * (shard + 1) + all % shards * (shard + 1) / shards;
  };
  std::vector<ElementRange> ranges;
  uint64_t begin = 0;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    const uint64_t least = std::min(begin + 1, all);
    const uint64_t end =
        shard + 1 == shards ? all : ChunkFrom(schema, std::max(share(shard), least));
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

}  // namespace pulse
