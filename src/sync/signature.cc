#include "sync/signature.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <optional>

namespace pulse {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kSignatureBytes = 64;

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeKey>;
using ContextPtr = std::unique_ptr<EVP_MD_CTX, FreeContext>;
using BioPtr = std::unique_ptr<BIO, FreeBio>;

std::string ToHex(ByteView bytes) {
  std::string hex;
  for (const uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

// nullopt unless exactly 2 * size lowercase digits.
std::optional<Bytes> FromHex(std::string_view hex, size_t size) {
  if (hex.size() != 2 * size) return std::nullopt;
  Bytes bytes;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < size; ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<uint8_t>(16 * high + low));
  }
  return bytes;
}

BioPtr MemoryBio(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

StatusOr<std::string> PublicHex(const EVP_PKEY* key) {
  std::array<unsigned char, kKeyBytes> raw = {};
  size_t size = raw.size();
  if (EVP_PKEY_get_raw_public_key(key, raw.data(), &size) != 1 || size != raw.size()) {
    return InvalidArgument("the key has no Ed25519 public part");
  }
  return ToHex(raw);
}

constexpr size_t kMaxPemBytes = 65536;  // an Ed25519 key has about 120

// No passphrase prompt: a library may not read the terminal.
int NoPassphrase(char*, int, int, void*) {
  return -1;
}

}  // namespace

StatusOr<std::shared_ptr<const SigningKey>> SigningKey::FromPem(std::string_view pem) {
  if (pem.size() > kMaxPemBytes)
    return InvalidArgument("a signing key of {} bytes is no PEM file", pem.size());
  const BioPtr bio = MemoryBio(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (!key || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return InvalidArgument(
        "not an unencrypted Ed25519 private key in PEM: make one with openssl genpkey -algorithm "
        "ed25519");
  }
  std::shared_ptr<SigningKey> made(new SigningKey);
  PULSE_ASSIGN_OR_RETURN(made->public_key_hex_, PublicHex(key.get()));
  made->key_ = key.release();
  return std::shared_ptr<const SigningKey>(std::move(made));
}

SigningKey::~SigningKey() {
  EVP_PKEY_free(key_);
}

StatusOr<Signature> SigningKey::Sign(ByteView message) const {
  const ContextPtr context(EVP_MD_CTX_new());
  std::array<unsigned char, kSignatureBytes> raw = {};
  size_t size = raw.size();
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_) != 1 ||
      EVP_DigestSign(context.get(), raw.data(), &size, message.data(), message.size()) != 1 ||
      size != raw.size()) {
    return Internal("OpenSSL could not sign with an Ed25519 key");
  }
  return Signature{public_key_hex_, ToHex(raw)};
}

StatusOr<std::string> PublicKeyHex(std::string_view pem_or_hex) {
  while (!pem_or_hex.empty() && (pem_or_hex.back() == '\n' || pem_or_hex.back() == '\r')) {
    pem_or_hex.remove_suffix(1);
  }
  if (FromHex(pem_or_hex, kKeyBytes)) return std::string(pem_or_hex);
  if (pem_or_hex.size() <= kMaxPemBytes) {
    const BioPtr bio = MemoryBio(pem_or_hex);
    const KeyPtr key(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassphrase, nullptr));
    if (key && EVP_PKEY_get_id(key.get()) == EVP_PKEY_ED25519) return PublicHex(key.get());
  }
  return InvalidArgument(
      "not an Ed25519 public key: expected PEM (openssl pkey -pubout) or 64 hexadecimal digits");
}

Status CheckSignature(const Signature& signature, std::string_view trusted_key_hex,
                      ByteView message) {
  if (signature.key != trusted_key_hex) {
    return PermissionDenied("signed by key {}, trusted is {}", signature.key, trusted_key_hex);
  }
  const auto raw_key = FromHex(signature.key, kKeyBytes);
  const auto raw = FromHex(signature.value, kSignatureBytes);
  if (!raw_key || !raw) return PermissionDenied("the signature is malformed");
  const KeyPtr key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw_key->data(), raw_key->size()));
  const ContextPtr context(EVP_MD_CTX_new());
  if (!key || EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestVerify(context.get(), raw->data(), raw->size(), message.data(), message.size()) !=
          1) {
    return PermissionDenied("the signature of key {} does not fit", signature.key);
  }
  return OkStatus();
}

}  // namespace pulse
