#include "sync/head.h"

#include <algorithm>

#include "core/sha256.h"
#include "sync/strict_json.h"
#include "sync/version_json.h"

namespace pulse {
namespace {

constexpr std::string_view kFormat = "pulse-head-1";
// A refusal without a visible winner (a 409 between two writers that both failed, an answer lost on
// the way): the same conditional put is safe to send again, and three in a row mean trouble
// elsewhere.
constexpr int kSwapAttempts = 4;

Json ToJson(const Head& head) {
  return {
      {"epoch", head.epoch}, {"format", kFormat},
      {"nonce", head.nonce}, {"publisher", head.publisher},
      {"run", head.run},     {"version", head.version ? RefToJson(*head.version) : Json(nullptr)}};
}

bool MayHaveHappened(const Status& status) {
  return status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

bool IsStill(const std::optional<HeadAt>& expected, const StatusOr<HeadAt>& now) {
  if (!expected) return absl::IsNotFound(now.status());
  return now.ok() && now->head.nonce == expected->head.nonce;
}

Status LostTo(const StatusOr<HeadAt>& now, const Head& next) {
  if (!now.ok()) return Aborted("the head of run \"{}\" was removed by somebody else", next.run);
  const Head& head = now->head;
  return Aborted("another publisher won: the head of run \"{}\" is now at epoch {}, version {}",
                 next.run, head.epoch, head.version ? head.version->id.number : 0);
}

}  // namespace

std::string SerializeHead(const Head& head) {
  Json json = ToJson(head);
  json["checksum"] = Sha256Hex(AsBytes(CanonicalJson(json)));
  return CanonicalJson(json);
}

StatusOr<Head> ParseHead(ByteView bytes, std::string_view run) {
  const std::string what = fmt::format("head of run \"{}\"", run);
  if (bytes.size() > kMaxHeadBytes)
    return DataLoss("{}: {} bytes are too many", what, bytes.size());
  PULSE_ASSIGN_OR_RETURN(const Json json, ParseStrictJson(AsText(bytes), what));
  JsonReader reader(json, what);
  if (reader.Text("format") != kFormat) {
    reader.Fail(fmt::format("\"format\" is not \"{}\"", kFormat));
  }
  Head head;
  head.run = reader.Text("run");
  head.epoch = reader.Unsigned("epoch", kMaxVersionNumber);
  head.nonce = reader.Text("nonce");
  head.publisher = reader.Text("publisher");
  if (const Json& version = reader.Member("version"); !version.is_null()) {
    head.version = RefFromJson(version, reader);
  }
  PULSE_RETURN_IF_ERROR(reader.status());
  if (head.run != run) return DataLoss("{}: belongs to run \"{}\"", what, head.run);
  if (!IsNonce(head.nonce) || !IsNonce(head.publisher) || head.epoch == 0 ||
      (head.version && head.version->id.epoch > head.epoch)) {
    return DataLoss("{}: its nonces or epochs can't be", what);
  }
  // One comparison stands for the checksum, unknown members, spelling and white space.
  if (!std::ranges::equal(AsBytes(SerializeHead(head)), bytes)) {
    return DataLoss("{}: damaged: its checksum or its spelling does not fit", what);
  }
  return head;
}

StatusOr<HeadAt> ReadHead(Store& store, const std::string& run) {
  PULSE_RETURN_IF_ERROR(CheckRunName(run));
  auto object = store.Get(HeadKey(run), kMaxHeadBytes);
  if (absl::IsNotFound(object.status())) {
    return NotFound("{}: run \"{}\" has no head: nothing was ever published there", store.uri(),
                    run);
  }
  if (absl::IsResourceExhausted(object.status())) {
    return DataLoss("{}: the head of run \"{}\" is too large to be one", store.uri(), run);
  }
  PULSE_RETURN_IF_ERROR(object.status());
  PULSE_ASSIGN_OR_RETURN(Head head, ParseHead(object->bytes, run));
  return HeadAt{std::move(head), std::move(object->info.etag)};
}

StatusOr<HeadAt> SwapHead(Store& store, const std::optional<HeadAt>& current, const Head& next,
                          bool conditional) {
  const std::string text = SerializeHead(next);
  const MemorySource source(AsBytes(text));
  PutCondition condition = PutCondition::None();
  if (conditional) {
    condition = current ? PutCondition::IfMatch(current->etag) : PutCondition::IfAbsent();
  }
  Status last;
  for (int attempt = 0; attempt < kSwapAttempts; ++attempt) {
    if (!conditional) {
      const StatusOr<HeadAt> before = ReadHead(store, next.run);
      if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
      if (!IsStill(current, before)) return LostTo(before, next);
    }
    auto put = store.Put(HeadKey(next.run), source, condition);
    if (put.ok()) return HeadAt{next, std::move(put->etag)};
    // A refused condition may be our own put, carried out and then repeated by something between.
    const bool refused = absl::IsAborted(put.status());
    if (!refused && !MayHaveHappened(put.status())) return put.status();
    const StatusOr<HeadAt> now = ReadHead(store, next.run);
    if (now.ok() && now->head.nonce == next.nonce) return now;
    if (!now.ok() && !absl::IsNotFound(now.status())) {
      return Unavailable("whether the head of run \"{}\" was swapped is unknown: {}; then: {}",
                         next.run, ToStd(put.status().message()), ToStd(now.status().message()));
    }
    if (!IsStill(current, now)) return LostTo(now, next);
    last = put.status();
  }
  return Unavailable("the head of run \"{}\" could not be swapped, nor did anybody else: {}",
                     next.run, ToStd(last.message()));
}

}  // namespace pulse
