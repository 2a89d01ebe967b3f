#include "sync/version_json.h"

namespace pulse {

Json RefToJson(const VersionRef& ref) {
  return {{"epoch", ref.id.epoch},
          {"manifest_sha256", ref.manifest_sha256},
          {"nonce", ref.id.nonce},
          {"number", ref.id.number}};
}

VersionRef RefFromJson(const Json& json, JsonReader& reader) {
  JsonReader inner(json, "version reference");
  VersionRef ref;
  ref.id.epoch = inner.Unsigned("epoch", kMaxVersionNumber);
  ref.id.number = inner.Unsigned("number", kMaxVersionNumber);
  ref.id.nonce = inner.Text("nonce");
  ref.manifest_sha256 = inner.Text("manifest_sha256");
  const bool names_a_version = ref.id.epoch > 0 && ref.id.number > 0 && IsNonce(ref.id.nonce) &&
                               IsSha256Hex(ref.manifest_sha256);
  if (!inner.status().ok()) {
    reader.Fail(ToStd(inner.status().message()));
  } else if (!names_a_version) {
    reader.Fail("a version reference that names no version");
  }
  return ref;
}

}  // namespace pulse
