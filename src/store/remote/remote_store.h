// A bucket's URI and the environment -> a store across the network.
#pragma once

#include <memory>
#include <string_view>

#include "core/clock.h"
#include "store/filesystem.h"
#include "store/remote/aws_credentials.h"
#include "store/remote/curl_transport.h"
#include "store/remote/retry.h"
#include "store/store.h"

namespace pulse {

struct RemoteStoreDeps {
  Filesystem& fs;  // for profile files
  Clock& clock;
  EnvironmentLookup environment;
  uint64_t seed = 0;  // of jitter and of the probe's name: different in each process
};

struct RemoteStoreOptions {
  HttpOptions http;
  RetryOptions retry;
};

// Whether `uri` is of a kind that OpenRemoteStore knows.
bool IsRemoteUri(std::string_view uri);

// "s3://bucket[/prefix]", "http(s)://host[/path]" (read only),
// "hf://buckets/NAMESPACE/NAME[/prefix]", with options behind a "?" (docs/stores.md). Nothing is
// asked of the network yet. kInvalidArgument names what is wrong with the URI or the environment.
// fs and clock must outlive the store.
StatusOr<std::unique_ptr<Store>> OpenRemoteStore(std::string_view uri, const RemoteStoreDeps& deps,
                                                 RemoteStoreOptions options = {});

}  // namespace pulse
