// libcurl's errors in our words.
#pragma once

#include <curl/curl.h>

#include <string_view>

#include "core/status.h"

namespace pulse {

struct CurlFailure {
  Status status;
  bool retry = false;  // trying again may help
};

// code: not CURLE_OK. detail: libcurl's own words, may be empty. host: for the message.
CurlFailure TranslateCurlFailure(CURLcode code, std::string_view detail, std::string_view host);

}  // namespace pulse
