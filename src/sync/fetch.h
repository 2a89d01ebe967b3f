// One immutable object of a bucket, streamed and checked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/bytes.h"
#include "core/status.h"
#include "store/store.h"

namespace pulse {

// What an object must be.
struct ExpectedObject {
  uint64_t bytes = 0;
  std::string sha256;
  int threads = 1;  // requests in flight; each holds two pieces of 8 MiB
};

// Streams the object through `sink` in order, in pieces of at most 8 MiB. Only when this returns OK
// were the bytes the right ones. kNotFound; kDataLoss for another size or SHA-256; the sink's own
// errors.
Status FetchObject(Store& store, const std::string& key, const ExpectedObject& expected,
                   const std::function<Status(ByteView)>& sink);

}  // namespace pulse
