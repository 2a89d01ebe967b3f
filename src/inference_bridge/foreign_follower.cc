#include "inference_bridge/foreign_follower.h"

#include <algorithm>

#include "sync/foreign/rebuild.h"
#include "sync/foreign/way.h"

namespace pulse {
namespace {

constexpr uint64_t kEpoch = 1;  // foreign chains have no takeovers

std::string RunOf(const ForeignFormat& format) {
  return std::string(format.name());
}

}  // namespace

StatusOr<std::unique_ptr<ForeignFollower>> ForeignFollower::Open(ForeignFollowerOptions options,
                                                                 ForeignFollowerDeps deps) {
  PULSE_ASSIGN_OR_RETURN(auto output,
                         Output::Open({options.output, options.layout, RunOf(*options.format),
                                       options.lock_timeout_ms},
                                      deps.fs, deps.clock, deps.log));
  std::unique_ptr<ForeignFollower> follower(
      new ForeignFollower(std::move(options), deps, std::move(output)));
  if (const std::string& base = follower->options_.base; !base.empty()) {
    auto opened = Checkpoint::Open(deps.fs, base);
    PULSE_RETURN_IF_ERROR(Annotate(opened.status(), "base"));
    follower->base_ = *std::move(opened);
    follower->base_view_ = std::make_unique<ModelViewSource>(follower->base_->view());
  }
  return follower;
}

StatusOr<FollowResult> ForeignFollower::Step(const FollowTarget& target) {
  const int64_t begin_ns = deps_.clock.NowNs();
  PULSE_RETURN_IF_ERROR(RefreshLocal());
  const uint64_t held = local_ ? local_->version().id.number : 0;
  PULSE_ASSIGN_OR_RETURN(const auto marks,
                         options_.format->List(deps_.store, options_.prefix, held));
  if (marks.empty() && !local_) {
    return NotFound("{}: no {} version is below \"{}\" yet", deps_.store.uri(),
                    options_.format->name(), options_.prefix);
  }
  PULSE_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(target, marks));
  const uint64_t newest = marks.empty() ? held : marks.back().number;
  if (local_ && number == held) return Describe(newest);
  PULSE_ASSIGN_OR_RETURN(const auto way, WayTo(number, marks, /*around=*/false));
  FollowResult result;
  result.plan_seconds = static_cast<double>(deps_.clock.NowNs() - begin_ns) * 1e-9;
  const Status taken = Take(way, result);
  if (absl::IsDataLoss(taken)) {
    const auto around = WayTo(number, marks, /*around=*/true);
    if (!around.ok() || around->front() == way.front()) return taken;
    deps_.log.warn("{}; going around it by {}", ToStd(taken.message()), around->front().key);
    PULSE_RETURN_IF_ERROR(Take(*around, result));
  } else {
    PULSE_RETURN_IF_ERROR(taken);
  }
  FollowResult described = Describe(newest);
  described.changed = true;
  described.from_anchor = result.from_anchor;
  described.versions = result.versions;
  described.objects = result.objects;
  described.bytes = result.bytes;
  described.view_bytes = result.view_bytes;
  described.plan_seconds = result.plan_seconds;
  described.rebuild_seconds = result.rebuild_seconds;
  return described;
}

Status ForeignFollower::RefreshLocal() {
  const std::string path = output_->file();
  if (local_) {
    PULSE_ASSIGN_OR_RETURN(const bool still, local_->IsStillAt(deps_.fs, path));
    if (still) return OkStatus();
    deps_.log.warn("{} was changed by somebody else", path);
  }
  local_.reset();
  auto local = LocalCopy::Verify(deps_.fs, path, RunOf(*options_.format), deps_.log);
  if (absl::IsDataLoss(local.status())) {
    deps_.log.error("{}; removing it", ToStd(local.status().message()));
    return output_->Remove();
  }
  PULSE_ASSIGN_OR_RETURN(local_, std::move(local));
  return OkStatus();
}

StatusOr<uint64_t> ForeignFollower::NumberOf(const FollowTarget& target,
                                             const std::vector<ForeignMark>& marks) {
  const uint64_t held = local_ ? local_->version().id.number : 0;
  switch (target.kind) {
    case FollowTarget::Kind::kNumber:
      if (target.number >= held) return target.number;
      return FailedPrecondition(
          "{} holds version {} and never goes back: give another --out for version {}",
          output_->path(), held, target.number);
    case FollowTarget::Kind::kNewest:
      return marks.empty() ? held : marks.back().number;
    case FollowTarget::Kind::kNext:
      break;
  }
  // The first that can be rebuilt.
  for (const ForeignMark& mark : marks) {
    if (local_ || WayTo(mark.number, marks, /*around=*/false).ok()) return mark.number;
  }
  return marks.empty() ? held : marks.back().number;
}

StatusOr<std::vector<ForeignMark>> ForeignFollower::WayTo(uint64_t number,
                                                          const std::vector<ForeignMark>& marks,
                                                          bool around) {
  const ForeignFormat& format = *options_.format;
  std::optional<uint64_t> from;
  if (local_ && !around) from = local_->version().id.number;
  auto way = FindForeignWay(format, deps_.store, marks, number, from);
  if (way.ok() || around || local_ || !base_ || format.first_number() != 0) return way;
  return FindForeignWay(format, deps_.store, marks, number, 0);  // from the receiver's own model
}

Status ForeignFollower::Take(const std::vector<ForeignMark>& way, FollowResult& result) {
  for (const ForeignMark& mark : way) PULSE_RETURN_IF_ERROR(Apply(mark, result));
  return OkStatus();
}

ForeignBase ForeignFollower::BaseOf(const ForeignVersion& version) const {
  if (local_) return {&local_->view(), local_->version().digest, local_->version().id.number};
  if (!base_) return {};
  ForeignBase base{.view = base_view_.get()};
  if (!version.full()) base.number = 0;
  return base;
}

Status ForeignFollower::Apply(const ForeignMark& mark, FollowResult& result) {
  const int64_t begin_ns = deps_.clock.NowNs();
  PULSE_ASSIGN_OR_RETURN(
      const auto version,
      options_.format->Open(deps_.store, mark, {.decoder_bytes = options_.decoder_bytes}));
  const ForeignBase base = BaseOf(*version);
  const ModelSchema* base_schema = base.view != nullptr ? &base.view->schema() : nullptr;
  PULSE_ASSIGN_OR_RETURN(const ModelSchema schema, version->Schema(base_schema));
  ForeignRebuildOptions rebuild;
  FollowPhase phase = FollowPhase::kRebuild;
  rebuild.on_bytes = [&](uint64_t done) {
    if (options_.progress) options_.progress(phase, done, schema.bytes());
    return options_.stop && options_.stop() ? Cancelled("stopped on request") : OkStatus();
  };
  // The file names its own digest in its header, so that a restart can believe it: where the writer
  // does not say it, the version is made twice.
  LocalVersion made;
  if (version->target_digest()) {
    made.digest = *version->target_digest();
  } else {
    phase = FollowPhase::kVerify;
    PULSE_ASSIGN_OR_RETURN(const ViewDigests digests,
                           DigestForeignVersion(*version, base, rebuild));
    made.digest = digests.view;
    phase = FollowPhase::kRebuild;
  }
  made.id = {kEpoch, mark.number, made.digest.Hex()};
  rebuild.expected = made.digest;
  rebuild.metadata = FollowMetadata(RunOf(*options_.format), made);
  PULSE_ASSIGN_OR_RETURN(const std::string path, output_->Stage(made.id));
  PULSE_RETURN_IF_ERROR(RebuildForeignVersion(deps_.fs, path, *version, base, rebuild).status());
  // Whatever fails from here on, the next step looks afresh at what is in place.
  local_.reset();
  PULSE_RETURN_IF_ERROR(output_->Link(made.id));
  PULSE_ASSIGN_OR_RETURN(local_, LocalCopy::Trust(deps_.fs, output_->file(), made));
  result.from_anchor = result.from_anchor || version->full();
  result.versions += 1;
  result.objects += 1;
  result.bytes += version->file_bytes();
  result.view_bytes = schema.bytes();
  result.rebuild_seconds += static_cast<double>(deps_.clock.NowNs() - begin_ns) * 1e-9;
  return OkStatus();
}

FollowResult ForeignFollower::Describe(uint64_t newest) const {
  FollowResult result;
  result.version.id = local_->version().id;
  result.digest = local_->version().digest;
  result.newest = newest;
  result.metadata = {{"foreign.format", std::string(options_.format->name())},
                     {"foreign.version", std::to_string(local_->version().id.number)}};
  return result;
}

}  // namespace pulse
