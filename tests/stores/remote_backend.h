// Remote stores for tests: opened as the program opens them, but with an environment of the test's
// own and pauses fit for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "core/clock.h"
#include "store/filesystem.h"
#include "store/remote/remote_store.h"

namespace pulse::stores {

using Variables = std::map<std::string, std::string>;

// The keys of s3_server.py.
inline Variables KeysOf(const std::string& user, const std::string& secret) {
  return {{"AWS_ACCESS_KEY_ID", user}, {"AWS_SECRET_ACCESS_KEY", secret}};
}
inline Variables WriterKeys() {
  return KeysOf("WRITER", "writer");
}

// stall_timeout_ms: short where a test stalls on purpose; else what a busy machine may need.
inline RemoteStoreOptions FastRetries(int64_t stall_timeout_ms = 20'000) {
  RemoteStoreOptions options;
  options.http.connect_timeout_ms = 20'000;
  options.http.stall_timeout_ms = stall_timeout_ms;
  options.retry = {.attempts = 8, .first_delay_ms = 1, .max_delay_ms = 20};
  return options;
}

// Opens remote stores. Thread-safe.
class RemoteWorld {
 public:
  StatusOr<std::unique_ptr<Store>> Open(const std::string& uri, const Variables& variables,
                                        const RemoteStoreOptions& options = FastRetries()) {
    const auto environment = [variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    return OpenRemoteStore(uri, {*fs_, clock_, environment, ++seed_}, options);
  }

  Clock& clock() { return clock_; }
  Filesystem& fs() { return *fs_; }

 private:
  RealClock clock_;
  std::unique_ptr<Filesystem> fs_ = MakePosixFilesystem();
  std::atomic<uint64_t> seed_ = 0;
};

}  // namespace pulse::stores
