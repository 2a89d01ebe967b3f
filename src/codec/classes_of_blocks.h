// The classes of blocks of theta, found out once for all who ask: a rank encodes its own update
// against the blocks that it decodes the others' against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "codec/theta_classes.h"
#include "kernels/class_rank/class_rank.h"

namespace pulse {

// Not thread-safe.
class ClassesOfBlocks {
 public:
  // What it holds of an element, at most (it is 0.65).
  static constexpr uint64_t kBytesPerElement = 1;

  explicit ClassesOfBlocks(const kernels::ClassRankBody& kernel) : kernel_(kernel) {}

  // Of a block of theta, which must not change; it is known by where it lies. Valid until Clear.
  const ThetaClasses& Of(std::span<const float> block) {
    const auto [at, is_new] =
        known_.try_emplace(std::pair(block.data(), block.size()), ThetaClasses(last_top_));
    if (is_new) at->second.Classify(kernel_, block);
    last_top_ = at->second.top();
    return at->second;
  }

  void Clear() { known_.clear(); }

 private:
  kernels::ClassRankBody kernel_;
  uint32_t last_top_ = 0;
  std::map<std::pair<const float*, size_t>, ThetaClasses> known_;
};

}  // namespace pulse
