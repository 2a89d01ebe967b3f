// SHA-256 (OpenSSL), for objects that must be trusted and not merely compared.
#pragma once

#include <memory>
#include <string>

#include "core/bytes.h"

namespace pulse {

// Fed in pieces; Hex() gives 64 lowercase digits once, after which it is spent. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(ByteView bytes);
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(ByteView bytes);

}  // namespace pulse
