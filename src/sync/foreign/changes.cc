#include "sync/foreign/changes.h"

#include <algorithm>
#include <cstring>

namespace pulse {

Status TensorPair::ForEachCell(const std::function<Status(uint64_t, ByteView, ByteView)>& take) {
  const uint64_t bytes = spec().bytes();
  for (uint64_t begin = 0; begin < bytes; begin += kCellBytes) {
    const TensorRange cell = {tensor_, begin, std::min(bytes, begin + kCellBytes)};
    PULSE_ASSIGN_OR_RETURN(const ByteView old_bytes, before_.Read(cell, before_scratch_));
    PULSE_ASSIGN_OR_RETURN(const ByteView new_bytes, after_.Read(cell, after_scratch_));
    PULSE_RETURN_IF_ERROR(take(begin, old_bytes, new_bytes));
  }
  return OkStatus();
}

StatusOr<bool> TensorPair::Differs() {
  bool differs = false;
  PULSE_RETURN_IF_ERROR(ForEachCell([&](uint64_t, ByteView before, ByteView after) {
    differs = differs || !std::ranges::equal(before, after);
    return OkStatus();
  }));
  return differs;
}

Status CheckCarried(const ForeignFormat& format, std::string_view encoding,
                    const ViewSource& before, const ViewSource& after) {
  const auto& tensors = after.schema().tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Status carried = format.CanCarryChange(tensors[i], encoding);
    if (carried.ok()) continue;
    PULSE_ASSIGN_OR_RETURN(const bool differs, TensorPair(before, after, i).Differs());
    if (differs) {
      return Unimplemented("tensor \"{}\" changes, and {} can't carry that: {}", tensors[i].name,
                           format.name(), ToStd(carried.message()));
    }
  }
  return OkStatus();
}

}  // namespace pulse
