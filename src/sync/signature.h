// Ed25519 signatures of manifests, so that a follower can insist on its publisher.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/status.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace pulse {

// Both parts as hexadecimal digits: a 32-byte public key, a 64-byte signature.
struct Signature {
  std::string key;
  std::string value;
  friend bool operator==(const Signature&, const Signature&) = default;
};

// A private key. The secret never leaves OpenSSL and is in no message.
class SigningKey {
 public:
  // PEM, as `openssl genpkey -algorithm ed25519` writes it. kInvalidArgument for anything else.
  static StatusOr<std::shared_ptr<const SigningKey>> FromPem(std::string_view pem);
  ~SigningKey();

  StatusOr<Signature> Sign(ByteView message) const;
  const std::string& public_key_hex() const { return public_key_hex_; }

 private:
  SigningKey() = default;
  evp_pkey_st* key_ = nullptr;
  std::string public_key_hex_;
};

// A public key as 64 hexadecimal digits, from PEM (`openssl pkey -pubout`) or from those digits.
StatusOr<std::string> PublicKeyHex(std::string_view pem_or_hex);

// kPermissionDenied unless `signature` is the message's under `trusted_key_hex`.
Status CheckSignature(const Signature& signature, std::string_view trusted_key_hex,
                      ByteView message);

}  // namespace pulse
