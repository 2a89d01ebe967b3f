#include "loco/device/device_tree_sum.h"

#include <utility>

namespace pulse::loco {

void DeviceTreeSum::Start() {
  for (const DeviceSpan<float>& pending : levels_) {
    if (pending.data != nullptr) free_.push_back(pending);
  }
  levels_.clear();
}

StatusOr<DeviceSpan<float>> DeviceTreeSum::FreeArray(uint64_t elements) {
  if (free_.empty()) {
    PULSE_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                           DeviceBuffer::Open(work_.driver(), elements * sizeof(float) + 256));
    free_.emplace_back(reinterpret_cast<float*>(buffer.get()), elements);
    buffers_.push_back(std::move(buffer));
  }
  const DeviceSpan<float> array = free_.back();
  free_.pop_back();
  return array;
}

Status DeviceTreeSum::Add(DeviceSpan<const float> leaf) {
  DeviceSpan<float> sum;  // none: it is the leaf
  size_t level = 0;
  for (; level < levels_.size() && levels_[level].data != nullptr; ++level) {
    const DeviceSpan<const float> right = level == 0 ? leaf : sum;
    PULSE_RETURN_IF_ERROR(work_.Did(kernels_.add_dense(levels_[level], right, work_.stream()),
                                    "adding two micro-batches"));
    if (level > 0) free_.push_back(sum);
    sum = std::exchange(levels_[level], {});
  }
  if (level == 0) {
    PULSE_ASSIGN_OR_RETURN(sum, FreeArray(leaf.size));
    PULSE_RETURN_IF_ERROR(work_.Copy<float>(leaf, sum));
  }
  if (level == levels_.size()) levels_.emplace_back();
  levels_[level] = sum;
  return OkStatus();
}

Status DeviceTreeSum::Finish(DeviceSpan<float> sum) {
  if (levels_.empty()) return Internal("a sum of no leaves");
  PULSE_RETURN_IF_ERROR(work_.Copy<float>(levels_.back(), sum));
  Start();
  return OkStatus();
}

}  // namespace pulse::loco
