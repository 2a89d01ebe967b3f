#include "inference_bridge/rebuild.h"

#include <algorithm>
#include <vector>

#include "sync/in_order_bytes.h"

namespace pulse {

Status AppendView(const ViewSource& view, int threads, CheckpointWriter& writer,
                  const std::function<Status(uint64_t)>& on_bytes) {
  std::vector<TensorRange> cells;
  for (const size_t tensor : writer.order()) {
    const uint64_t bytes = view.schema().tensors()[tensor].bytes();
    for (uint64_t begin = 0; begin < bytes; begin += kCellBytes) {
      cells.push_back({tensor, begin, std::min(bytes, begin + kCellBytes)});
    }
  }
  const auto make = [&](size_t i, Bytes& scratch) { return view.Read(cells[i], scratch); };
  uint64_t done = 0;
  const auto take = [&](size_t, ByteView bytes) -> Status {
    PULSE_RETURN_IF_ERROR(writer.Append(bytes));
    done += bytes.size();
    return on_bytes ? on_bytes(done) : OkStatus();
  };
  return ProduceBytesInOrder(cells.size(), threads, make, take);
}

}  // namespace pulse
