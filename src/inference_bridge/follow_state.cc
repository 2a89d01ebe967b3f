#include "inference_bridge/follow_state.h"

#include "core/sha256.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

constexpr char kFormat[] = "pulse.follower/1";
// A real one has about 400 bytes.
constexpr uint64_t kMaxStateBytes = 4096;

}  // namespace

std::string SerializeFollowState(const FollowState& state) {
  Json json = {{"format", kFormat}, {"holder", state.holder}, {"run", state.run}};
  if (state.seen) {
    json["seen"] = {{"manifest_sha256", state.seen->manifest_sha256},
                    {"version", state.seen->id.Folder()}};
  }
  json["sha256"] = Sha256Hex(AsBytes(CanonicalJson(json)));
  return CanonicalJson(json) + "\n";
}

StatusOr<FollowState> ParseFollowState(ByteView bytes) {
  PULSE_ASSIGN_OR_RETURN(const Json json, ParseStrictJson(AsText(bytes), "follower state"));
  JsonReader reader(json, "follower state");
  FollowState state;
  state.run = reader.Text("run");
  state.holder = reader.Text("holder");
  if (json.contains("seen")) {
    JsonReader seen(json["seen"], "follower state, seen");
    const auto id = VersionId::FromFolder(seen.Text("version"));
    if (!id) seen.Fail("\"version\" is not <epoch>.<number>.<nonce>");
    const std::string sha256 = seen.Text("manifest_sha256");
    PULSE_RETURN_IF_ERROR(seen.status());
    state.seen = VersionRef{*id, sha256};
  }
  PULSE_RETURN_IF_ERROR(reader.status());
  // Its own hash, its format and any further member are checked by writing it again.
  if (SerializeFollowState(state) != AsText(bytes)) {
    return DataLoss("follower state: not as it was written");
  }
  return state;
}

StatusOr<std::optional<FollowState>> LoadFollowState(Filesystem& fs, const std::string& path) {
  const auto bytes = ReadFile(fs, path, kMaxStateBytes);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  auto state = bytes.ok() ? ParseFollowState(*bytes) : bytes.status();
  if (state.ok()) return std::optional<FollowState>(*std::move(state));
  if (!absl::IsDataLoss(state.status()) && !absl::IsResourceExhausted(state.status())) {
    return state.status();
  }
  return DataLoss(
      "{} is damaged ({}): without it a bucket that was rolled back can't be told from a sound "
      "one; "
      "remove it to follow all the same",
      path, ToStd(state.status().message()));
}

Status StoreFollowState(Filesystem& fs, const std::string& path, const FollowState& state) {
  return WriteFileAtomically(fs, path, AsBytes(SerializeFollowState(state)));
}

}  // namespace pulse
