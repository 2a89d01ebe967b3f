// Names of versions, and where their objects lie in a bucket.
//
//   runs/<run>/HEAD
//   runs/<run>/<epoch>.<number>.<nonce>/manifest.json
//   runs/<run>/<epoch>.<number>.<nonce>/delta-00000.safetensors ...
//   runs/<run>/<epoch>.<number>.<nonce>/anchor-00000.safetensors ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"

namespace pulse {

// JSON readers everywhere keep integers up to 2^53 exact.
inline constexpr uint64_t kMaxVersionNumber = (uint64_t{1} << 53) - 1;

// One attempt to publish. `number` counts a run's versions from 1 and never repeats among published
// ones; `epoch` counts the run's publishers; the nonce (32 lowercase hexadecimal digits) tells
// attempts apart.
struct VersionId {
  uint64_t epoch = 0;
  uint64_t number = 0;
  std::string nonce;

  std::string Short() const;   // "<epoch>.<number>": for people, and where the run is known
  std::string Folder() const;  // "<epoch>.<number>.<nonce>"
  // nullopt unless `folder` is exactly what Folder() writes.
  static std::optional<VersionId> FromFolder(std::string_view folder);
  friend bool operator==(const VersionId&, const VersionId&) = default;
};

// A version and the hash of its manifest: whoever trusts the reference can trust the version.
struct VersionRef {
  VersionId id;
  std::string manifest_sha256;  // 64 lowercase hexadecimal digits
  friend bool operator==(const VersionRef&, const VersionRef&) = default;
};

// kInvalidArgument unless [A-Za-z0-9_-][A-Za-z0-9._-]{0,63}.
Status CheckRunName(std::string_view run);
bool IsNonce(std::string_view text);      // 32 lowercase hexadecimal digits
bool IsSha256Hex(std::string_view text);  // 64

std::string RunPrefix(std::string_view run);  // "runs/<run>/"
std::string HeadKey(std::string_view run);
std::string ObjectKey(std::string_view run, const VersionId& id, std::string_view name);
std::string ManifestKey(std::string_view run, const VersionId& id);

// Where nonces come from: values that never repeat, across processes and restarts too.
class NonceSource {
 public:
  virtual ~NonceSource() = default;
  virtual std::string Next() = 0;  // thread-safe
};

// 128 bits from the system's random source.
class SystemNonces final : public NonceSource {
 public:
  std::string Next() override;
};

}  // namespace pulse
