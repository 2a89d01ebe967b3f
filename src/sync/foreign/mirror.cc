#include "sync/foreign/mirror.h"

#include <algorithm>

#include "sync/publish_part.h"

namespace pulse {

ForeignMirror::ForeignMirror(Store& store, Filesystem& fs, ForeignChoice choice,
                             ForeignMirrorOptions options)
    : store_(store), fs_(fs), choice_(std::move(choice)), options_(std::move(options)) {}

Status ForeignMirror::Encode(uint64_t number, const ViewSource* before, const ViewSource& view,
                             const std::function<void(uint64_t)>& progress) {
  const ForeignFormat& format = *choice_.format;
  PULSE_ASSIGN_OR_RETURN(const auto marks,
                         format.List(store_, options_.prefix, number >= 2 ? number - 2 : 0));
  if (!marks.empty() && marks.back().number >= number) {
    return FailedPrecondition(
        "{}: {} holds version {} already, and {} would be the next: give another prefix",
        store_.uri(), marks.back().key, marks.back().number, number);
  }
  const bool continues = !marks.empty() && marks.back().number + 1 == number && before != nullptr &&
                         before->schema() == view.schema();
  ForeignEncodeOptions encode;
  encode.progress = progress;
  encode.make_spool = [this] {
    const std::string path =
        options_.spool_path.empty() ? "" : fmt::format("{}{}", options_.spool_path, spools_++);
    return std::make_unique<Spool>(&fs_, path, options_.memory_bytes / kMaxForeignSpools);
  };
  PULSE_ASSIGN_OR_RETURN(
      encoded_, format.Encode(continues ? before : nullptr, view, choice_.encoding, encode));
  number_ = number;
  view_ = &view;
  full_ = !continues;
  return OkStatus();
}

Status ForeignMirror::Put(const EncodedForeignVersion& encoded, const Manifest& published) {
  ForeignLabels labels;
  labels.number = published.id.number;
  labels.target_digest = published.target_digest;
  if (published.has(PayloadRole::kDelta)) labels.base_digest = published.base_digest;
  PULSE_ASSIGN_OR_RETURN(const auto objects, encoded.Objects(labels));
  for (const ForeignObject& object : objects) {
    const auto put = PutAndVerify(store_, fmt::format("{}{}", options_.prefix, object.key),
                                  *object.source, /*read_back=*/true);
    PULSE_RETURN_IF_ERROR(put.status());
    bytes_ += object.source->size();
  }
  return OkStatus();
}

Status ForeignMirror::Write(const Manifest& published) {
  if (encoded_ == nullptr || published.id.number != number_) {
    return Internal("version {} was published, version {} encoded", published.id.number, number_);
  }
  bytes_ = 0;
  const std::string where =
      fmt::format("version {} is published, but not as {} (the next one will be a full one)",
                  number_, format());
  PULSE_RETURN_IF_ERROR(Annotate(Put(*encoded_, published), where));
  if (!full_ && published.has(PayloadRole::kAnchor) && choice_.format->full_beside_delta()) {
    PULSE_ASSIGN_OR_RETURN(const auto anchor,
                           choice_.format->Encode(nullptr, *view_, choice_.encoding, {}));
    PULSE_RETURN_IF_ERROR(Annotate(Put(*anchor, published), where));
    full_ = true;
  }
  encoded_.reset();
  return OkStatus();
}

}  // namespace pulse
