// A store in a bucket of an S3 server, below a prefix.
#pragma once

#include <memory>
#include <string>

#include "store/remote/s3_client.h"
#include "store/remote/s3_multipart.h"
#include "store/store.h"

namespace pulse {

struct S3StoreOptions {
  std::string uri;     // for messages: "s3://bucket/prefix"
  std::string prefix;  // of all keys, without slashes at its ends; a key itself, or empty
  // Above this a put goes in parts; a conditional one is kUnimplemented there, as not every server
  // keeps conditions when it puts parts together.
  uint64_t max_single_put_bytes = uint64_t{16} << 20;
  MultipartOptions multipart = {};
  uint64_t probe_seed = 0;  // different in each process: names the probe's object
};

// Beyond store.h: HonoursConditions tries them with a small object "probe-*" which it removes,
// once, at the first call or the first conditional put. Objects whose keys are no keys of ours are
// not listed. The client must be for the bucket.
StatusOr<std::unique_ptr<Store>> OpenS3Store(S3StoreOptions options,
                                             std::unique_ptr<S3Client> client);

}  // namespace pulse
