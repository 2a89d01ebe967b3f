// What a block of theta tells codec "small" of the updates on it: the class of each element. It is
// the same for the updates of all trainers, and takes longer to find out than to use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/class_rank/class_rank.h"

namespace pulse {

// Reuse one for many blocks: its arrays, and the top of a block is guessed from the one before.
class ThetaClasses {
 public:
  explicit ThetaClasses(uint32_t guessed_top = 0) : top_(guessed_top) {}

  // theta: of one block; must outlive this or the next call.
  void Classify(const kernels::ClassRankBody& kernel, std::span<const float> theta);

  std::span<const float> theta() const { return theta_; }
  uint32_t top() const { return top_; }  // the exponent field of class 0
  std::span<const kernels::ClassTile> tiles() const { return tiles_; }
  std::span<const kernels::TileCounts> counts() const { return counts_; }
  const kernels::ClassCounts& sizes() const { return sizes_; }  // elements of each class

 private:
  std::span<const float> theta_;
  uint32_t top_;
  std::vector<kernels::ClassTile> tiles_;
  std::vector<kernels::TileCounts> counts_;
  kernels::ClassCounts sizes_ = {};
};

}  // namespace pulse
