// Room for a block's bits by class (kernels/class_bits), all classes in one array.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/class_bits/class_bits.h"

namespace pulse {

// Reuse one for many blocks.
class ClassBitsRoom {
 public:
  // Where each class's bits are to stand; what stands there is unspecified. Valid until the next
  // call.
  const kernels::ClassBits& For(const kernels::ClassCounts& sizes) {
    size_t words = 0;
    for (const uint32_t size : sizes) words += kernels::ClassBitsLength(size);
    words_.resize(words);
    uint64_t* next = words_.data();
    for (size_t c = 0; c < kernels::kRankClasses; ++c) {
      bits_[c] = next;
      next += kernels::ClassBitsLength(sizes[c]);
    }
    return bits_;
  }
  // The same, zeros.
  const kernels::ClassBits& ZerosFor(const kernels::ClassCounts& sizes) {
    words_.clear();
    return For(sizes);
  }

 private:
  std::vector<uint64_t> words_;
  kernels::ClassBits bits_ = {};
};

}  // namespace pulse
