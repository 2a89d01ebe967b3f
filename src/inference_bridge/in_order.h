// Bytes made on several threads and taken in order on the caller's, through a bounded window.
#pragma once

#include <cstddef>
#include <functional>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// Makes item i: bytes that lie where they like, or in `scratch`. They must stay until item i has
// been taken. Called from several threads at once.
using MakeItem = std::function<StatusOr<ByteView>(size_t i, Bytes& scratch)>;
// Takes the items 0, 1, 2, ... on the caller's thread.
using TakeItem = std::function<Status(size_t i, ByteView item)>;

// Makes `count` items on `threads` threads; at most threads + 1 of them exist at a time, each with
// a scratch of its own. With threads <= 1 everything happens in turn on the caller's thread, so
// that the order of operations is fixed. Returns the first error in the order of items, whatever
// thread met an error first; no call is running when this returns.
Status ForEachInOrder(size_t count, int threads, const MakeItem& make, const TakeItem& take);

}  // namespace pulse
