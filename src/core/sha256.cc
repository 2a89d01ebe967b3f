#include "core/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "core/status.h"

namespace pulse {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(ByteView bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::Hex() {
  std::array<unsigned char, 32> digest = {};
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string Sha256Hex(ByteView bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Hex();
}

}  // namespace pulse
