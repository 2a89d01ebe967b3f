// What a publisher's state folder remembers of its identity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/filesystem.h"

namespace pulse {

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
