// The change of a tensor that travels whole.
#pragma once

#include <utility>

#include "sync/foreign/format.h"
#include "sync/foreign/tensor_file.h"

namespace pulse {

class CopyPatch final : public TensorPatch {
 public:
  explicit CopyPatch(EntryReader entry) : entry_(std::move(entry)) {}
  Status Apply(ByteSpan bytes) override { return entry_.Fill(bytes); }
  Status Finish() override { return OkStatus(); }

 private:
  EntryReader entry_;
};

}  // namespace pulse
