#include "app/joint_publisher.h"

#include <nlohmann/json.hpp>

#include "app/agree.h"
#include "core/sha256.h"
#include "sync/publisher_state.h"
#include "sync/restore_base.h"

namespace pulse {
namespace {

using nlohmann::json;

constexpr char kDigests[] = "digests";  // the first rank wants those of the view, no version yet

Bytes ToBytes(const json& value) {
  const std::string text = value.dump();
  return {text.begin(), text.end()};
}

StatusOr<json> ToJson(ByteView bytes) {
  json value = json::parse(AsText(bytes), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return Internal("a publishing rank sent no JSON");
  return value;
}

json ToJson(const Attempt& attempt) {
  return {{"id", attempt.id.Folder()},
          {"base", attempt.base ? attempt.base->Folder() : ""},
          {"anchor_reason", attempt.anchor_reason},
          {"codec", attempt.codec == RangeCodec::kFast ? "fast" : "small"}};
}

StatusOr<Attempt> ToAttempt(const json& value) {
  Attempt attempt;
  const auto id = VersionId::FromFolder(value.value("id", ""));
  if (!id) return Internal("the first publishing rank named no version");
  attempt.id = *id;
  attempt.base = VersionId::FromFolder(value.value("base", ""));
  attempt.anchor_reason = value.value("anchor_reason", "");
  attempt.codec = value.value("codec", "") == "fast" ? RangeCodec::kFast : RangeCodec::kSmall;
  return attempt;
}

json ToJson(const std::vector<ManifestObject>& objects) {
  json rows = json::array();
  for (const ManifestObject& object : objects) {
    rows.push_back({{"anchor", object.role == PayloadRole::kAnchor},
                    {"part", object.part},
                    {"bytes", object.bytes},
                    {"sha256", object.sha256}});
  }
  return rows;
}

ManifestObject ToObject(const json& row) {
  return {row.value("anchor", false) ? PayloadRole::kAnchor : PayloadRole::kDelta,
          row.value("part", uint32_t{0}), row.value("bytes", uint64_t{0}), row.value("sha256", "")};
}

}  // namespace

// What one attempt gathers.
struct JointPublisher::Round {
  const ViewSource& view;
  PublishOptions options;
  Attempt attempt = {};
  EncodedPart part = {};
  CombinedDigests digests = {};
  std::string anchor_reason = "";
  std::vector<ManifestObject> objects = {};  // of all ranks
};

JointPublisher::JointPublisher(Communicator* group, const ModelSchema& schema,
                               PublisherOptions options, PublisherDeps deps, int64_t timeout_ms)
    : schema_(schema), options_(std::move(options)), deps_(deps), timeout_ms_(timeout_ms) {
  if (group == nullptr || group->size() == 1) return;
  group_.emplace(*group);
  rank_ = static_cast<size_t>(group->rank());
  shares_ = ShareRanges(schema, static_cast<size_t>(group->size()));
  if (rank_ < shares_.size()) options_.ranges = shares_[rank_];
}

StatusOr<std::unique_ptr<JointPublisher>> JointPublisher::Open(Communicator* group,
                                                               const ModelSchema& schema,
                                                               PublisherOptions options,
                                                               PublisherDeps deps,
                                                               int64_t timeout_ms) {
  std::unique_ptr<JointPublisher> joint(
      new JointPublisher(group, schema, std::move(options), deps, timeout_ms));
  PublisherOptions& own = joint->options_;
  if (joint->rank_ == 0) {
    PULSE_ASSIGN_OR_RETURN(joint->publisher_, Publisher::Open(own, deps));
    return joint;
  }
  if (!own.state_directory.empty()) {
    own.state_directory += fmt::format("/rank-{:05}", joint->rank_);
    PULSE_ASSIGN_OR_RETURN(joint->lock_,
                           LockPublisherState(deps.fs, own.state_directory, deps.log,
                                              Deadline::After(deps.clock, own.lock_timeout_ms)));
  }
  joint->own_base_ =
      std::make_unique<StagedBase>(deps.fs, deps.kernels, own.state_directory, own.base);
  PULSE_ASSIGN_OR_RETURN(
      joint->chain_,
      ChainReader::Open(deps.store, {.run = own.run, .trusted_key = own.trusted_key}));
  return joint;
}

Status JointPublisher::TakeOver() {
  publisher_.reset();  // its lock goes first
  PublisherOptions options = options_;
  options.take_over = true;
  PULSE_ASSIGN_OR_RETURN(publisher_, Publisher::Open(std::move(options), deps_));
  return OkStatus();
}

StatusOr<std::vector<Bytes>> JointPublisher::Tell(const StatusOr<Bytes>& mine) {
  return Agree(*group_, mine, Deadline::After(deps_.clock, timeout_ms_));
}

StatusOr<Bytes> JointPublisher::Hear(const StatusOr<Bytes>& mine) {
  PULSE_ASSIGN_OR_RETURN(std::vector<Bytes> all, Tell(mine));
  return std::move(all.front());
}

StatusOr<Published> JointPublisher::Publish(const ViewSource& view, const PublishOptions& options) {
  if (!group_) return publisher_->Publish(view, options);
  auto attempt = publisher_->Begin(schema_, options);
  PULSE_RETURN_IF_ERROR(
      Tell(attempt.ok() ? StatusOr<Bytes>(ToBytes(ToJson(*attempt))) : attempt.status()).status());
  Round round = {view, options, *std::move(attempt)};
  return Run(round);
}

StatusOr<ViewDigests> JointPublisher::Digests(const ViewSource& view) {
  if (!group_) return ComputeDigests(view);
  PULSE_RETURN_IF_ERROR(Tell(ToBytes({{kDigests, true}})).status());
  PULSE_ASSIGN_OR_RETURN(CombinedDigests combined, DigestsOfAll(view));
  return std::move(combined.target);
}

// Of a view alone: as for an attempt without a base.
StatusOr<CombinedDigests> JointPublisher::DigestsOfAll(const ViewSource& view) {
  const auto digest = [&]() -> StatusOr<Bytes> {
    if (!has_share()) return Bytes();
    PULSE_ASSIGN_OR_RETURN(const EncodedPart part, EncodePart(deps_.fs, deps_.kernels, Part(),
                                                              Attempt{}, nullptr, view, {}));
    return SerializePartDigests(part.digests);
  };
  PULSE_ASSIGN_OR_RETURN(const std::vector<Bytes> rows, Tell(digest()));
  return Combine(rows);
}

StatusOr<CombinedDigests> JointPublisher::Combine(const std::vector<Bytes>& rows) const {
  std::vector<PartDigests> parts;
  for (size_t rank = 0; rank < shares_.size(); ++rank) {
    PULSE_ASSIGN_OR_RETURN(parts.emplace_back(), DeserializePartDigests(rows[rank]));
  }
  return CombineParts(schema_, parts);
}

Status JointPublisher::Decline(const Status& why) {
  if (!group_) return why;
  return Tell(why.ok() ? StatusOr<Bytes>(Bytes()) : StatusOr<Bytes>(why)).status();
}

StatusOr<std::optional<Published>> JointPublisher::Join(const ViewSource& view) {
  json value;
  for (;;) {
    PULSE_ASSIGN_OR_RETURN(const Bytes words, Hear(Bytes()));
    if (words.empty()) return std::nullopt;
    PULSE_ASSIGN_OR_RETURN(value, ToJson(words));
    if (!value.contains(kDigests)) break;
    // Where that fails, the first rank hears so too, and declines.
    DigestsOfAll(view).IgnoreError();
  }
  PULSE_ASSIGN_OR_RETURN(Attempt attempt, ToAttempt(value));
  Round round = {view, {}, std::move(attempt)};
  PULSE_ASSIGN_OR_RETURN(Published published, Run(round));
  return published;
}

StatusOr<Published> JointPublisher::Run(Round& round) {
  PULSE_RETURN_IF_ERROR(AgreeOnBases(round));
  PULSE_RETURN_IF_ERROR(Encode(round));
  PULSE_RETURN_IF_ERROR(Upload(round));
  return Finish(round);
}

// One byte: whether this rank has what the delta starts from.
StatusOr<Bytes> JointPublisher::RestoreBases(Round& round) {
  if (!round.attempt.base || !has_share() || first()) return Bytes{1};
  const Status restored = RestoreBase(*chain_, deps_.kernels, *round.attempt.base, options_.ranges,
                                      std::nullopt, *own_base_);
  if (!restored.ok() && !BaseIsLost(restored)) return restored;
  if (!restored.ok()) {
    deps_.log.error("version {} can't be rebuilt, the next one will have an anchor: {}",
                    round.attempt.base->number, ToStd(restored.message()));
  }
  return Bytes{restored.ok()};
}

Status JointPublisher::AgreeOnBases(Round& round) {
  PULSE_ASSIGN_OR_RETURN(const auto have, Tell(RestoreBases(round)));
  const bool all = std::ranges::all_of(have, [](const Bytes& row) { return row == Bytes{1}; });
  if (all) return OkStatus();
  round.attempt.base.reset();
  if (round.attempt.anchor_reason.empty()) round.attempt.anchor_reason = "base lost";
  return OkStatus();
}

Status JointPublisher::Encode(Round& round) {
  const auto encode = [&]() -> StatusOr<Bytes> {
    if (!has_share()) return Bytes();
    auto part = EncodePart(deps_.fs, deps_.kernels, Part(), round.attempt,
                           round.attempt.base ? base().view() : nullptr, round.view,
                           round.options.progress);
    if (part.ok()) {
      round.part = *std::move(part);
      return SerializePartDigests(round.part.digests);
    }
    // Of a base that is read from the bucket, the damage shows only now.
    const bool read = round.attempt.base && !base().keeps_copy();
    if (!read || !BaseIsLost(part.status())) return part.status();
    deps_.log.error("version {} can't be rebuilt: {}", round.attempt.base->number,
                    ToStd(part.status().message()));
    return Bytes{0};
  };
  PULSE_ASSIGN_OR_RETURN(const std::vector<Bytes> rows, Tell(encode()));
  // The same on all ranks until the first one looks at its tip.
  const auto without_base = std::ranges::find(rows, Bytes{0});
  auto combined = without_base == rows.end()
                      ? Combine(rows)
                      : DataLoss("rank {} could not read its base", without_base - rows.begin());
  Status holds = combined.status();
  if (holds.ok() && first()) holds = publisher_->CheckBase(round.attempt, *combined);
  const bool lost = round.attempt.base && absl::IsDataLoss(holds);
  StatusOr<Bytes> words = Bytes();
  if (lost) {
    words = ToBytes({{"base_lost", true}});
  } else if (!holds.ok()) {
    words = holds;
  } else if (first()) {
    words = ToBytes(
        {{"anchor_reason", publisher_->AnchorReason(round.attempt, *combined, schema_.bytes())}});
  }
  PULSE_ASSIGN_OR_RETURN(const Bytes heard, Hear(words));
  PULSE_ASSIGN_OR_RETURN(const json decision, ToJson(heard));
  if (decision.value("base_lost", false)) {
    if (first()) deps_.log.error("{}: publishing an anchor instead", ToStd(holds.message()));
    if (has_share()) base().Drop();
    round.attempt.base.reset();
    round.attempt.anchor_reason = "base lost";
    return Encode(round);
  }
  PULSE_RETURN_IF_ERROR(combined.status());
  round.digests = *std::move(combined);
  round.anchor_reason = decision.value("anchor_reason", "");
  return OkStatus();
}

Status JointPublisher::Upload(Round& round) {
  const auto upload = [&]() -> StatusOr<Bytes> {
    if (!has_share()) return ToBytes(json::array());
    PULSE_ASSIGN_OR_RETURN(const auto objects,
                           UploadPart(deps_.store, Part(), round.attempt, round.part, round.digests,
                                      round.view, !round.anchor_reason.empty()));
    return ToBytes(ToJson(objects));
  };
  PULSE_ASSIGN_OR_RETURN(const std::vector<Bytes> all, Tell(upload()));
  for (const Bytes& of_rank : all) {
    PULSE_ASSIGN_OR_RETURN(const json rows, ToJson(of_rank));
    for (const json& row : rows) round.objects.push_back(ToObject(row));
  }
  return OkStatus();
}

// Manifest and bases, then the head.
StatusOr<Published> JointPublisher::Finish(Round& round) {
  Published version;
  const auto prepare = [&]() -> StatusOr<Bytes> {
    std::string text;
    if (first()) {
      PULSE_ASSIGN_OR_RETURN(
          version, publisher_->WriteManifest(round.attempt, schema_, round.digests, round.objects,
                                             round.anchor_reason, round.options));
      text = SerializeManifest(version.manifest);
    }
    if (has_share()) {
      const bool unchanged = round.attempt.base && round.digests.changed == 0;
      PULSE_RETURN_IF_ERROR(base().Stage(round.attempt.id, round.view, options_.ranges, unchanged));
    }
    return Bytes(text.begin(), text.end());
  };
  PULSE_ASSIGN_OR_RETURN(const Bytes manifest, Hear(prepare()));
  const Status committed = first() ? publisher_->Commit(version) : OkStatus();
  PULSE_RETURN_IF_ERROR(
      Tell(committed.ok() ? StatusOr<Bytes>(Bytes()) : StatusOr<Bytes>(committed)).status());
  if (!first()) {
    PULSE_ASSIGN_OR_RETURN(version.manifest, ParseManifest(manifest));
    version.ref = {version.manifest.id, Sha256Hex(manifest)};
  }
  if (!has_share()) return version;
  if (const Status promoted = base().Promote(round.attempt.id, round.view, options_.ranges);
      !promoted.ok()) {
    deps_.log.warn("the base of version {} could not be taken into use: {}",
                   round.attempt.id.number, ToStd(promoted.message()));
  }
  return version;
}

}  // namespace pulse
