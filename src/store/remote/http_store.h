// A store on a web server, read only: each object a file below one URL.
#pragma once

#include <memory>
#include <string>

#include "store/remote/http_session.h"
#include "store/store.h"

namespace pulse {

struct HttpStoreOptions {
  std::string uri;           // for messages
  std::string base_url;      // "https://host/path/": with the encoded key behind it, an object's
  std::string key_prefix;    // put before each key: "" or "a/b/"
  bool keep_slashes = true;  // of a key, or send them as %2F
  std::string token;         // sent as "Authorization: Bearer", to that host alone; empty for none
  std::string token_hint;    // what to do when the server wants (another) one, for messages
};

// Puts and deletes are kPermissionDenied, lists and conditions kUnimplemented. An etag is what the
// server says, and no finer than that: nginx's tells apart what was replaced in different seconds.
// Sizes are asked for by GET of the first byte, as signed addresses behind a redirect refuse HEAD.
std::unique_ptr<Store> MakeHttpStore(HttpStoreOptions options,
                                     std::unique_ptr<HttpSession> session);

}  // namespace pulse
