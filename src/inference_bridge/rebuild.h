// A view -> a checkpoint file, on several threads.
#pragma once

#include <cstdint>
#include <functional>

#include "core/status.h"
#include "sync/checkpoint.h"
#include "sync/view.h"

namespace pulse {

// What one thread of AppendView needs at most: the cell that it makes, one that waits, and what a
// codec needs meanwhile.
inline constexpr uint64_t kRebuildBytesPerThread = 4 * kCellBytes;

// Appends all tensors of `view` (whose schema is the writer's) to the writer: cells are made on
// `threads` threads, and written and digested on the caller's. The bytes do not depend on
// `threads`. on_bytes: bytes so far; an error ends the work with it. Errors are the view's and the
// writer's.
Status AppendView(const ViewSource& view, int threads, CheckpointWriter& writer,
                  const std::function<Status(uint64_t)>& on_bytes);

}  // namespace pulse
