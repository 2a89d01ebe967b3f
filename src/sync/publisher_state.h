// A publisher's state folder: whose it is, and what it remembers of its identity.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/deadline.h"
#include "core/log.h"
#include "store/filesystem.h"

namespace pulse {

// Makes the folder and keeps other publishers out of it. Null, with a warning, where there are no
// file locks; kDeadlineExceeded names who holds it.
StatusOr<std::unique_ptr<FileLock>> LockPublisherState(Filesystem& fs, const std::string& directory,
                                                       Logger& log, Deadline deadline);

// Who held which epoch. It continues that epoch if, and only if, the head names the same pair.
struct PublisherState {
  std::string run;
  uint64_t epoch = 0;
  std::string publisher;
};

// nullopt: there is none, or it is damaged, which costs only the epoch.
StatusOr<std::optional<PublisherState>> LoadPublisherState(Filesystem& fs,
                                                           const std::string& directory);
Status SavePublisherState(Filesystem& fs, const std::string& directory,
                          const PublisherState& state);

}  // namespace pulse
