// HTTP and HTTPS by libcurl.
#pragma once

#include <memory>
#include <string>

#include "store/remote/http.h"

namespace pulse {

struct HttpOptions {
  int64_t connect_timeout_ms = 10'000;
  int64_t stall_timeout_ms = 30'000;     // without a byte either way; whole seconds
  int64_t request_timeout_ms = 600'000;  // of one attempt: 8 MiB at 14 kB/s
  std::string ca_file;                   // PEM; empty: the system's certificates
};

// Keeps connections open between requests, one for each thread that sends at a time. Proxies come
// from the environment (https_proxy, no_proxy), as libcurl reads it. TLS is always verified.
StatusOr<std::unique_ptr<HttpTransport>> MakeCurlTransport(HttpOptions options);

}  // namespace pulse
