// How a model's flat arrays are cut over the ranks that share it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schema.h"

namespace pulse {

// Elements [begin, end) of the flat arrays.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t length() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// One range per shard, in order and without gaps. Each begins where a chunk of the view's digest
// does (1 MiB of a tensor, core/digest.h), so that every chunk, of BF16 and of the FP32 masters
// behind it, is on one rank: who digests or publishes a shard needs nothing of its neighbours. As
// even as that allows: a shard is at most a chunk longer than its share, and where there are fewer
// chunks than shards the last ones are empty. shards: at least 1.
std::vector<ElementRange> CutIntoShards(const ModelSchema& schema, uint32_t shards);

}  // namespace pulse
