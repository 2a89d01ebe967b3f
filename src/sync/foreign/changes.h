// Finds what differs between two views of one schema, tensor by tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "sync/foreign/format.h"
#include "sync/view.h"

namespace pulse {

// Reads both views of one tensor cell by cell. For one thread; the views must outlive it.
class TensorPair {
 public:
  TensorPair(const ViewSource& before, const ViewSource& after, size_t tensor)
      : before_(before), after_(after), tensor_(tensor) {}

  const TensorSpec& spec() const { return after_.schema().tensors()[tensor_]; }

  // Calls take(offset, before, after) for each cell. Stops at the first error.
  Status ForEachCell(const std::function<Status(uint64_t, ByteView, ByteView)>& take);

  StatusOr<bool> Differs();

 private:
  const ViewSource& before_;
  const ViewSource& after_;
  size_t tensor_;
  Bytes before_scratch_, after_scratch_;
};

// Calls found(i) for every i, ascending, at which element i (of sizeof(Word) bytes) differs. Both
// views have the same size, a multiple of sizeof(Word).
template <typename Word, typename Found>
void ForEachDifference(ByteView before, ByteView after, const Found& found) {
  // Most is equal, and equal blocks are skipped at the speed of memory.
  constexpr size_t kBlockBytes = 512;
  for (size_t block = 0; block < after.size(); block += kBlockBytes) {
    const size_t end = block + kBlockBytes < after.size() ? block + kBlockBytes : after.size();
    if (std::memcmp(before.data() + block, after.data() + block, end - block) == 0) continue;
    for (size_t at = block; at < end; at += sizeof(Word)) {
      if (LoadLittle<Word>(before.data() + at) != LoadLittle<Word>(after.data() + at)) {
        found(at / sizeof(Word));
      }
    }
  }
}

// kUnimplemented naming the first tensor that differs and that the format can't carry.
Status CheckCarried(const ForeignFormat& format, std::string_view encoding,
                    const ViewSource& before, const ViewSource& after);

}  // namespace pulse
