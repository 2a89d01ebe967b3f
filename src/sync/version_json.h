// A reference to a version inside canonical JSON: shared by head and manifest.
#pragma once

#include "sync/strict_json.h"
#include "sync/version.h"

namespace pulse {

// {"epoch":..,"manifest_sha256":"..","nonce":"..","number":..}
Json RefToJson(const VersionRef& ref);

// Anything that is not such an object fails the reader.
VersionRef RefFromJson(const Json& json, JsonReader& reader);

}  // namespace pulse
