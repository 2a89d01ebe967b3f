#include "sync/publisher_state.h"

#include "sync/strict_json.h"
#include "sync/version.h"

namespace pulse {
namespace {

constexpr std::string_view kFormat = "pulse-publisher-1";
constexpr uint64_t kMaxBytes = 4096;  // a real one has about 120

std::string PathOf(const std::string& directory) {
  return directory + "/publisher.json";
}

}  // namespace

StatusOr<std::unique_ptr<FileLock>> LockPublisherState(Filesystem& fs, const std::string& directory,
                                                       Logger& log, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(fs.CreateDirectories(directory));
  auto lock = fs.Lock(directory + "/LOCK", deadline);
  if (absl::IsUnimplemented(lock.status())) {
    log.warn("{}: no file locks here: nothing keeps a second publisher out", directory);
    return nullptr;
  }
  if (!lock.ok()) return Annotate(lock.status(), "publisher state");
  return lock;
}

StatusOr<std::optional<PublisherState>> LoadPublisherState(Filesystem& fs,
                                                           const std::string& directory) {
  const auto bytes = ReadFile(fs, PathOf(directory), kMaxBytes);
  if (absl::IsNotFound(bytes.status()) || absl::IsResourceExhausted(bytes.status())) {
    return std::optional<PublisherState>();
  }
  PULSE_RETURN_IF_ERROR(bytes.status());
  const auto json = ParseStrictJson(AsText(*bytes), "publisher state");
  if (!json.ok()) return std::optional<PublisherState>();
  JsonReader reader(*json, "publisher state");
  PublisherState state;
  if (reader.Text("format") != kFormat) reader.Fail("another format");
  state.run = reader.Text("run");
  state.epoch = reader.Unsigned("epoch", kMaxVersionNumber);
  state.publisher = reader.Text("publisher");
  if (!reader.status().ok() || !IsNonce(state.publisher)) return std::optional<PublisherState>();
  return std::optional<PublisherState>(std::move(state));
}

Status SavePublisherState(Filesystem& fs, const std::string& directory,
                          const PublisherState& state) {
  const Json json = {{"epoch", state.epoch},
                     {"format", kFormat},
                     {"publisher", state.publisher},
                     {"run", state.run}};
  return WriteFileAtomically(fs, PathOf(directory), AsBytes(CanonicalJson(json)));
}

}  // namespace pulse
