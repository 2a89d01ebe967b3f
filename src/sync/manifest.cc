#include "sync/manifest.h"

#include <algorithm>

#include "sync/version_json.h"

namespace pulse {
namespace {

constexpr std::string_view kFormat = "pulse-manifest-1";
constexpr std::string_view kWhat = "manifest";

Json ToJson(const ManifestObject& object) {
  return {{"bytes", object.bytes},
          {"part", object.part},
          {"role", NameOf(object.role)},
          {"sha256", object.sha256}};
}

Json ToJson(const Manifest& manifest) {
  Json objects = Json::array();
  for (const ManifestObject& object : manifest.objects) objects.push_back(ToJson(object));
  Json json = {
      {"base_digest", manifest.base_digest ? Json(manifest.base_digest->Hex()) : Json(nullptr)},
      {"chain_bytes", manifest.chain_bytes},
      {"chain_length", manifest.chain_length},
      {"changed", manifest.changed},
      {"codec", manifest.codec},
      {"created_unix_ms", manifest.created_unix_ms},
      {"epoch", manifest.id.epoch},
      {"format", kFormat},
      {"metadata", Json::object()},
      {"nonce", manifest.id.nonce},
      {"number", manifest.id.number},
      {"objects", std::move(objects)},
      {"parent", manifest.parent ? RefToJson(*manifest.parent) : Json(nullptr)},
      {"reason", manifest.reason},
      {"run", manifest.run},
      {"schema_digest", manifest.schema_digest.Hex()},
      {"target_digest", manifest.target_digest.Hex()},
  };
  for (const auto& [key, value] : manifest.metadata) json["metadata"][key] = value;
  if (manifest.signature) {
    json["signature"] = {{"key", manifest.signature->key}, {"value", manifest.signature->value}};
  }
  return json;
}

Digest ReadDigest(const Json& value, JsonReader& reader) {
  if (value.is_string()) {
    const auto digest = Digest::FromHex(value.get_ref<const std::string&>());
    if (digest.ok()) return *digest;
  }
  reader.Fail("a digest that is none");
  return {};
}

ManifestObject ReadObject(const Json& value, JsonReader& reader) {
  JsonReader inner(value, "object");
  ManifestObject object;
  object.bytes = inner.Unsigned("bytes", kMaxVersionNumber);
  object.part = static_cast<uint32_t>(inner.Unsigned("part", 99'999));
  object.sha256 = inner.Text("sha256");
  const std::string role = inner.Text("role");
  object.role = role == NameOf(PayloadRole::kAnchor) ? PayloadRole::kAnchor : PayloadRole::kDelta;
  if (!inner.status().ok()) {
    reader.Fail(ToStd(inner.status().message()));
  } else if (role != NameOf(object.role) || !IsSha256Hex(object.sha256)) {
    reader.Fail("an object with an unknown role or no SHA-256");
  }
  return object;
}

Manifest ReadManifest(const Json& json, JsonReader& reader) {
  Manifest manifest;
  manifest.run = reader.Text("run");
  manifest.id = {reader.Unsigned("epoch", kMaxVersionNumber),
                 reader.Unsigned("number", kMaxVersionNumber), reader.Text("nonce")};
  manifest.created_unix_ms =
      static_cast<int64_t>(reader.Unsigned("created_unix_ms", kMaxVersionNumber));
  manifest.chain_bytes = reader.Unsigned("chain_bytes", kMaxVersionNumber);
  manifest.chain_length = reader.Unsigned("chain_length", kMaxVersionNumber);
  manifest.changed = reader.Unsigned("changed", kMaxVersionNumber);
  manifest.codec = reader.Text("codec");
  manifest.reason = reader.Text("reason");
  manifest.schema_digest = ReadDigest(reader.Member("schema_digest"), reader);
  manifest.target_digest = ReadDigest(reader.Member("target_digest"), reader);
  if (const Json& base = reader.Member("base_digest"); !base.is_null()) {
    manifest.base_digest = ReadDigest(base, reader);
  }
  if (const Json& parent = reader.Member("parent"); !parent.is_null()) {
    manifest.parent = RefFromJson(parent, reader);
  }
  for (const Json& object : reader.Member("objects")) {
    manifest.objects.push_back(ReadObject(object, reader));
  }
  if (const Json& metadata = reader.Member("metadata"); metadata.is_object()) {
    for (const auto& [key, value] : metadata.items()) {
      if (!value.is_string()) reader.Fail("metadata that is not text");
      if (value.is_string()) manifest.metadata[key] = value.get<std::string>();
    }
  }
  if (json.is_object() && json.contains("signature")) {
    JsonReader signature(json["signature"], "signature");
    manifest.signature = Signature{signature.Text("key"), signature.Text("value")};
    if (!signature.status().ok()) reader.Fail("a signature that is none");
  }
  return manifest;
}

// Deltas then anchors, parts counted from 0, and sizes whose sum stays exact.
Status CheckObjects(const Manifest& manifest) {
  uint32_t next_part = 0;
  uint64_t total = 0;
  PayloadRole role = PayloadRole::kDelta;
  for (const ManifestObject& object : manifest.objects) {
    if (object.role != role) {
      if (object.role == PayloadRole::kDelta)
        return DataLoss("{}: its objects are out of order", kWhat);
      role = object.role;
      next_part = 0;
    }
    if (object.part != next_part++) return DataLoss("{}: its objects are out of order", kWhat);
    total += object.bytes;
    if (total > kMaxVersionNumber) return DataLoss("{}: its objects are too large", kWhat);
  }
  if (manifest.objects.empty()) return DataLoss("{}: it names no object", kWhat);
  return OkStatus();
}

Status CheckManifest(const Manifest& manifest) {
  PULSE_RETURN_IF_ERROR(CheckObjects(manifest));
  const bool has_delta = manifest.has(PayloadRole::kDelta);
  const bool has_anchor = manifest.has(PayloadRole::kAnchor);
  if (!CheckRunName(manifest.run).ok() || manifest.id.epoch == 0 || manifest.id.number == 0 ||
      !IsNonce(manifest.id.nonce)) {
    return DataLoss("{}: it names no version", kWhat);
  }
  if (has_delta != manifest.base_digest.has_value() || has_delta != !manifest.codec.empty() ||
      (has_delta && !manifest.parent) || (!has_delta && manifest.changed != 0)) {
    return DataLoss("{}: delta, base, parent and codec do not go together", kWhat);
  }
  if (manifest.parent && (manifest.parent->id.number + 1 != manifest.id.number ||
                          manifest.parent->id.epoch > manifest.id.epoch)) {
    return DataLoss("{}: version {} can't follow version {}", kWhat, manifest.id.number,
                    manifest.parent->id.number);
  }
  const bool counts_as_anchor = manifest.chain_length == 0 && manifest.chain_bytes == 0;
  if (has_anchor != counts_as_anchor || has_anchor != !manifest.reason.empty() ||
      (!has_anchor && manifest.chain_length == 0)) {
    return DataLoss("{}: anchor, reason and chain counters do not go together", kWhat);
  }
  return OkStatus();
}

}  // namespace

std::string_view NameOf(PayloadRole role) {
  return role == PayloadRole::kAnchor ? "anchor" : "delta";
}

std::string ManifestObject::Name() const {
  return fmt::format("{}-{:05}.safetensors", NameOf(role), part);
}

bool Manifest::has(PayloadRole role) const {
  return std::any_of(objects.begin(), objects.end(),
                     [&](const ManifestObject& object) { return object.role == role; });
}

uint64_t Manifest::bytes(PayloadRole role) const {
  uint64_t total = 0;
  for (const ManifestObject& object : objects) total += object.role == role ? object.bytes : 0;
  return total;
}

std::string SerializeManifest(const Manifest& manifest) {
  return CanonicalJson(ToJson(manifest));
}

StatusOr<Manifest> ParseManifest(ByteView bytes) {
  if (bytes.size() > kMaxManifestBytes)
    return DataLoss("{}: {} bytes are too many", kWhat, bytes.size());
  PULSE_ASSIGN_OR_RETURN(const Json json, ParseStrictJson(AsText(bytes), kWhat));
  JsonReader reader(json, kWhat);
  if (reader.Text("format") != kFormat)
    reader.Fail(fmt::format("\"format\" is not \"{}\"", kFormat));
  Manifest manifest = ReadManifest(json, reader);
  PULSE_RETURN_IF_ERROR(reader.status());
  PULSE_RETURN_IF_ERROR(CheckManifest(manifest));
  // Stands for unknown members, spelling, order and white space.
  if (!std::ranges::equal(AsBytes(SerializeManifest(manifest)), bytes)) {
    return DataLoss("{}: not in the canonical spelling", kWhat);
  }
  return manifest;
}

Status CheckSuccession(const Manifest& parent, const Manifest& child) {
  const auto broken = [&](std::string_view what) {
    return DataLoss("version {} does not continue version {}: {}", child.id.number,
                    parent.id.number, what);
  };
  if (!child.parent || child.parent->id != parent.id || child.run != parent.run) {
    return broken("it names another parent");
  }
  if (child.base_digest && *child.base_digest != parent.target_digest) {
    return broken("its base digest is not the parent's");
  }
  if (child.base_digest && child.schema_digest != parent.schema_digest) {
    return broken("a delta between two schemas");
  }
  const uint64_t delta_bytes = child.bytes(PayloadRole::kDelta);
  if (!child.has(PayloadRole::kAnchor) && (child.chain_bytes != parent.chain_bytes + delta_bytes ||
                                           child.chain_length != parent.chain_length + 1)) {
    return broken("its chain counters do not add up");
  }
  return OkStatus();
}

Status SignManifest(const SigningKey& key, Manifest& manifest) {
  manifest.signature.reset();
  PULSE_ASSIGN_OR_RETURN(manifest.signature, key.Sign(AsBytes(SerializeManifest(manifest))));
  return OkStatus();
}

Status CheckManifestSignature(const Manifest& manifest, std::string_view trusted_key_hex) {
  const std::string where = fmt::format("manifest of version {}", manifest.id.number);
  if (!manifest.signature) {
    return PermissionDenied("{}: not signed, but a trusted key is set", where);
  }
  Manifest bare = manifest;
  bare.signature.reset();
  return Annotate(
      CheckSignature(*manifest.signature, trusted_key_hex, AsBytes(SerializeManifest(bare))),
      where);
}

}  // namespace pulse
