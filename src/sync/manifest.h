// The manifest of a version: which objects hold it, what they hash to, and what it continues.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/digest.h"
#include "core/status.h"
#include "sync/signature.h"
#include "sync/version.h"

namespace pulse {

// 100,000 objects of one version (one per publishing rank and role) fit in.
inline constexpr uint64_t kMaxManifestBytes = uint64_t{32} << 20;

enum class PayloadRole { kDelta, kAnchor };
std::string_view NameOf(PayloadRole role);  // "delta", "anchor"

struct ManifestObject {
  PayloadRole role = PayloadRole::kDelta;
  uint32_t part = 0;  // which publishing rank's
  uint64_t bytes = 0;
  std::string sha256;

  std::string Name() const;  // "delta-00000.safetensors"
  friend bool operator==(const ManifestObject&, const ManifestObject&) = default;
};

struct Manifest {
  std::string run;
  VersionId id;
  int64_t created_unix_ms = 0;
  std::optional<VersionRef> parent;   // the version before; none for a run's first
  std::optional<Digest> base_digest;  // the parent's view, iff there is a delta
  Digest target_digest;               // of this version's view
  Digest schema_digest;
  std::vector<ManifestObject> objects;  // deltas first, then anchors, each by part from 0
  // Deltas since the newest anchor, this version's included; both 0 at an anchor.
  uint64_t chain_bytes = 0;
  uint64_t chain_length = 0;
  uint64_t changed = 0;  // elements that differ from the parent; 0 without a delta
  std::string codec;     // of the delta: "fast" or "small"; "" without one
  std::string
      reason;  // why there is an anchor, or "": "first", "asked", "cost", "length", "base lost"
  std::map<std::string, std::string> metadata;  // the publisher's own words
  std::optional<Signature> signature;

  bool has(PayloadRole role) const;
  uint64_t bytes(PayloadRole role) const;  // of all objects of that role
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Canonical JSON. What a signature covers is the text of the manifest without one.
std::string SerializeManifest(const Manifest& manifest);

// kDataLoss for anything but the exact bytes that SerializeManifest writes for some valid manifest.
StatusOr<Manifest> ParseManifest(ByteView bytes);

// What must hold between a version and its parent: kDataLoss names what does not.
Status CheckSuccession(const Manifest& parent, const Manifest& child);

// Adds the signature; replaces one that is there.
Status SignManifest(const SigningKey& key, Manifest& manifest);
// kPermissionDenied unless signed by the trusted key (64 hexadecimal digits).
Status CheckManifestSignature(const Manifest& manifest, std::string_view trusted_key_hex);

}  // namespace pulse
