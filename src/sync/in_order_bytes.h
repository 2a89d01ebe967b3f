// ProduceInOrder for large pieces of bytes, whose buffers are used again.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"
#include "sync/in_order.h"

namespace pulse {

// Makes the pieces 0 to count - 1 on `threads` threads and hands them to `take`, in order, on the
// caller's; errors and order are those of ProduceInOrder. At most 2 * threads + 1 buffers exist: a
// fresh one for each piece would be given its pages, zeroed, time and again.
//   make(i, Bytes& scratch) -> StatusOr<ByteView>   in scratch, or anywhere that lasts
//   take(i, ByteView) -> Status
template <typename Make, typename Take>
Status ProduceBytesInOrder(size_t count, int threads, const Make& make, const Take& take) {
  struct Piece {
    Bytes scratch;
    ByteView bytes;
  };
  std::mutex mutex;
  std::vector<Bytes> idle;  // guarded by mutex
  const auto worker = [&](size_t i) -> StatusOr<Piece> {
    Piece piece;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        piece.scratch = std::move(idle.back());
        idle.pop_back();
      }
    }
    PULSE_ASSIGN_OR_RETURN(piece.bytes, make(i, piece.scratch));
    return piece;  // moving a vector leaves its bytes where they are
  };
  return ProduceInOrder<Piece>(
      count, threads, [&] { return worker; },
      [&](size_t i, Piece piece) {
        PULSE_RETURN_IF_ERROR(take(i, piece.bytes));
        const std::lock_guard lock(mutex);
        idle.push_back(std::move(piece.scratch));
        return OkStatus();
      });
}

}  // namespace pulse
