// Objects of a bucket -> verified bytes close at hand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "store/filesystem.h"
#include "store/store.h"

namespace pulse {

struct FetchItem {
  std::string key;
  uint64_t bytes = 0;
  std::string sha256;  // 64 lowercase hexadecimal digits
};

struct FetchOptions {
  // Reads in flight at a time, of one object or of several. With 1, objects are read in turn.
  int parallel = 8;
  // Of one read. At 4 MiB a read costs far more than the request for it, on any network.
  uint64_t piece_bytes = uint64_t{4} << 20;
  // Objects are kept in memory while they fit in here together; the others go to files (mapped, and
  // without a name, so that nothing is left behind).
  uint64_t memory_bytes = uint64_t{256} << 20;
  std::string spool_path = {};                    // of these files, to which "<n>" is added
  std::function<Status(uint64_t)> on_bytes = {};  // bytes so far; an error ends the fetch with it
};

struct Fetched {
  Status status;           // OK: all are here
  std::string failed_key;  // whose error it is, if it is an object's
  std::vector<std::shared_ptr<const ByteSource>> sources;  // as `items`; only when OK
};

// Every object's size and SHA-256 hold before anybody sees a byte of it. kNotFound: an object is
// gone; kDataLoss: it is not what its hash says; kResourceExhausted: no space for the files; or the
// store's own errors. Memory: memory_bytes and 2 * parallel + 1 pieces.
Fetched FetchObjects(Store& store, Filesystem& fs, const std::vector<FetchItem>& items,
                     const FetchOptions& options);

}  // namespace pulse
