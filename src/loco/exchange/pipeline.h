// How the segments of an exchange overlap: while one is on its way, others are encoded, added and
// decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse::loco {

// Messages of one segment: to be sent, or as they were received.
using Messages = std::vector<Bytes>;

// One transfer of a segment and the work before it.
struct Stage {
  // Makes what is sent from what the stage before received (nothing, in the first). Runs on a
  // thread of its own: touches nothing but its segment.
  std::function<StatusOr<Messages>(size_t segment, Messages received)> work;
  // The communicator's call. Runs on the caller's thread.
  std::function<StatusOr<Messages>(Messages sent)> transfer;
};

// The segments that are in buffers at a time: one in each work, one on its way.
constexpr uint64_t SegmentsAtATime(size_t stages) {
  return stages + 2;
}

// Fewer segments than this leave too little to overlap, more cost a call's latency each.
inline constexpr uint64_t kOverlappingSegments = 8;

// Whether an exchange of so many entries, of all trainers, is cut into that many: they mean tens of
// milliseconds of work.
constexpr bool IsWorthOverlapping(uint64_t entries) {
  return entries >= 1'000'000;
}

// Passes segments 0 to segments - 1 through the stages and then through `last`. Transfers come in
// an order that depends on the two numbers alone. One segment runs on the caller's thread
// throughout. The first error ends it, after the works under way.
Status RunPipeline(size_t segments, std::span<const Stage> stages,
                   const std::function<Status(size_t segment, Messages received)>& last);

}  // namespace pulse::loco
