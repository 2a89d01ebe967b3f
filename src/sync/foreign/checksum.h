// The checksums that other systems keep of a tensor's bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// Fed in pieces of any size, in order. Not thread-safe.
class Checksum {
 public:
  virtual ~Checksum() = default;
  virtual void Update(ByteView bytes) = 0;
  virtual std::string Hex() const = 0;  // of all bytes so far, lowercase
};

inline constexpr std::string_view kXxh3Checksum = "xxh3-128";

// "xxh3-128" or "adler32". kUnimplemented for any other name.
StatusOr<std::unique_ptr<Checksum>> MakeChecksum(std::string_view name);

}  // namespace pulse
