// Puts an object in parts, several at a time; an upload that fails is aborted, so that no part
// stays behind to be paid for.
#pragma once

#include "store/remote/s3_client.h"
#include "store/store.h"

namespace pulse {

struct MultipartOptions {
  uint64_t part_bytes = uint64_t{8} << 20;  // at least; grows so that 10,000 parts are enough
  int parallel = 4;                         // each holds one part in memory
};

// The etag of the object. kUnavailable if it is not known whether the last step happened: read.
// Reads `source` from several threads.
StatusOr<std::string> PutInParts(S3Client& client, const std::string& key, const ByteSource& source,
                                 const MultipartOptions& options);

}  // namespace pulse
