#include "inference_bridge/follower.h"

#include <algorithm>

#include "inference_bridge/fetch.h"
#include "inference_bridge/rebuild.h"

namespace pulse {
namespace {

// Each way fails because retention took an object meanwhile; a reader that loses so often is slower
// than its publisher publishes.
constexpr int kMaxWays = 8;

bool Uses(const Plan& plan, const std::string& run, const std::string& key) {
  return std::ranges::any_of(plan.steps, [&](const PlanStep& step) {
    return std::ranges::any_of(step.manifest.objects, [&](const ManifestObject& object) {
      return object.role == step.role && ObjectKey(run, step.manifest.id, object.Name()) == key;
    });
  });
}

}  // namespace

Follower::Follower(FollowerOptions options, FollowerDeps deps, ChainReader chain,
                   std::unique_ptr<Output> output)
    : options_(std::move(options)),
      deps_(deps),
      chain_(std::move(chain)),
      output_(std::move(output)) {}

StatusOr<std::unique_ptr<Follower>> Follower::Open(FollowerOptions options, FollowerDeps deps) {
  if (options.parallel_fetches < 1 || options.threads < 1) {
    return InvalidArgument("a follower with {} parallel fetches and {} threads: at least 1 of each",
                           options.parallel_fetches, options.threads);
  }
  const auto threads = static_cast<uint64_t>(options.threads);
  options.threads = static_cast<int>(
      std::clamp<uint64_t>(options.memory_bytes / kRebuildBytesPerThread, 1, threads));
  PULSE_ASSIGN_OR_RETURN(ChainReader chain,
                         ChainReader::Open(deps.store, {options.run, options.trusted_key}));
  PULSE_ASSIGN_OR_RETURN(auto output, Output::Open({options.output, options.layout, options.run,
                                                    options.lock_timeout_ms},
                                                   deps.fs, deps.clock, deps.log));
  return std::unique_ptr<Follower>(
      new Follower(std::move(options), deps, std::move(chain), std::move(output)));
}

StatusOr<FollowResult> Follower::Step(const FollowTarget& target) {
  Detour detour;
  std::string missing;
  for (int way = 1;; ++way) {
    detour.object.clear();
    detour.suspect_base = false;
    auto result = StepOnce(target, detour);
    if (result.ok() || way == kMaxWays) return result;
    const bool gone = absl::IsNotFound(result.status()) && !detour.object.empty();
    if (gone && detour.object != missing) {
      // Perhaps retention took it while we came: what we know of the chain may be out of date.
      deps_.log.info("object \"{}\" is gone; starting again from the head", detour.object);
      missing = detour.object;
      PULSE_ASSIGN_OR_RETURN(chain_, ChainReader::Open(deps_.store, chain_options()));
      continue;
    }
    if (gone) {
      result = DataLoss("{}: object \"{}\" is missing, though a kept version needs it",
                        deps_.store.uri(), missing);
    }
    const bool damaged =
        absl::IsDataLoss(result.status()) && (!detour.object.empty() || detour.suspect_base);
    if (!damaged || detour.without_local || local_ == nullptr) return result;
    deps_.log.warn("{}; trying from an anchor", ToStd(result.status().message()));
    detour.without_local = true;
    detour.avoid = detour.object;
    detour.why = result.status();
    if (detour.suspect_base) local_.reset();
  }
}

StatusOr<FollowResult> Follower::StepOnce(const FollowTarget& target, Detour& detour) {
  const int64_t begin_ns = deps_.clock.NowNs();
  PULSE_ASSIGN_OR_RETURN(const VersionRef head, ReadHead());
  PULSE_RETURN_IF_ERROR(CheckContinues(head));
  if (!detour.without_local) PULSE_RETURN_IF_ERROR(RefreshLocal());
  if (local_ != nullptr && confirmed_ && local_->version().id == head.id &&
      target.kind != FollowTarget::Kind::kNumber) {
    return Describe(head, head);
  }
  PULSE_ASSIGN_OR_RETURN(const auto number, NumberOf(target, head));
  PULSE_ASSIGN_OR_RETURN(const Plan plan, PlanWay(number, head, detour));
  // Only now is the head known to name a version that its publisher made.
  PULSE_RETURN_IF_ERROR(output_->Remember(head));
  PULSE_ASSIGN_OR_RETURN(FollowResult result, Describe(plan.target, head));
  confirmed_ = confirmed_ || plan.steps.empty() || plan.from_local;
  result.plan_seconds = static_cast<double>(deps_.clock.NowNs() - begin_ns) * 1e-9;
  if (plan.steps.empty()) return result;
  PULSE_RETURN_IF_ERROR(Build(plan, detour, result));
  return result;
}

StatusOr<VersionRef> Follower::ReadHead() {
  PULSE_ASSIGN_OR_RETURN(HeadAt head, chain_.Head());
  if (head.head.version) return *std::move(head.head.version);
  return NotFound("{}: run \"{}\" has no version yet", deps_.store.uri(), options_.run);
}

// The bucket must hold what it held when we looked last: numbers alone would not show that it was
// rolled back and written to again.
Status Follower::CheckContinues(const VersionRef& head) {
  const std::optional<VersionRef>& seen = output_->state().seen;
  if (!seen || head == *seen) return OkStatus();
  const std::string hint = fmt::format(
      "{}, as {} saw it (if the bucket was replaced on purpose, remove {} and that file)",
      deps_.store.uri(), output_->state_path(), output_->path());
  PULSE_RETURN_IF_ERROR(Annotate(CheckNotBehind(head.id, seen->id), hint));
  const uint64_t number = seen->id.number;
  PULSE_ASSIGN_OR_RETURN(const auto walked, chain_.Walk(head, [&](const Manifest& manifest) {
    return manifest.id.number <= number + 1;
  }));
  for (const Manifest& manifest : walked) {
    if (manifest.parent && manifest.parent->id.number == number && *manifest.parent != *seen) {
      return FailedPrecondition("{}: version {} is another one than it was", hint, number);
    }
  }
  return OkStatus();
}

Status Follower::RefreshLocal() {
  const std::string path = output_->file();
  if (local_ != nullptr) {
    PULSE_ASSIGN_OR_RETURN(const bool still, local_->IsStillAt(deps_.fs, path));
    if (still) return OkStatus();
    deps_.log.warn("{} was changed by somebody else", path);
  }
  local_.reset();
  confirmed_ = false;
  auto local = LocalCopy::Verify(deps_.fs, path, options_.run, deps_.log);
  if (absl::IsDataLoss(local.status())) {
    deps_.log.error("{}; removing it", ToStd(local.status().message()));
    return output_->Remove();
  }
  PULSE_ASSIGN_OR_RETURN(local_, std::move(local));
  return OkStatus();
}

StatusOr<std::optional<uint64_t>> Follower::NumberOf(const FollowTarget& target,
                                                     const VersionRef& head) {
  const uint64_t local = local_ != nullptr ? local_->version().id.number : 0;
  switch (target.kind) {
    case FollowTarget::Kind::kNewest:
      return std::nullopt;
    case FollowTarget::Kind::kNumber:
      if (target.number >= local) return target.number;
      return FailedPrecondition(
          "{} holds version {} and never goes back: give another --out for version {}",
          output_->path(), local, target.number);
    case FollowTarget::Kind::kNext:
      break;
  }
  PULSE_ASSIGN_OR_RETURN(const auto walked, chain_.Walk(head, [&](const Manifest& manifest) {
    return manifest.id.number <= local + 1;
  }));
  uint64_t next = head.id.number;
  for (const Manifest& manifest : walked) {
    if (manifest.id.number > local) next = std::min(next, manifest.id.number);
  }
  if (local != 0 && next > local + 1) {
    deps_.log.warn("versions {} to {} are not kept any more; going on with {}", local + 1, next - 1,
                   next);
  }
  return next;
}

StatusOr<Plan> Follower::PlanWay(const std::optional<uint64_t>& number, const VersionRef& head,
                                 const Detour& detour) {
  std::optional<LocalVersion> local;
  if (local_ != nullptr && !detour.without_local) local = local_->version();
  if (local && local->id.number > head.id.number) {
    return FailedPrecondition("{} holds version {}, but the newest of {} is {}", output_->path(),
                              local->id.number, deps_.store.uri(), head.id.number);
  }
  auto plan = chain_.PlanTo(number, local);
  const bool foreign = absl::IsFailedPrecondition(plan.status()) ||
                       (plan.ok() && plan->steps.empty() && plan->target_digest != local->digest);
  if (local && foreign && output_->state().seen) {
    // The bucket continues what we saw of it, so the fault is with the file.
    deps_.log.warn("{} holds a version {} that this run never had; starting from an anchor",
                   output_->path(), local->id.number);
    local_.reset();
    plan = chain_.PlanTo(number, std::nullopt);
  } else if (foreign && plan.ok()) {
    return FailedPrecondition("{} holds another version {} than {}", output_->path(),
                              local->id.number, deps_.store.uri());
  }
  if (detour.without_local && (!plan.ok() || Uses(*plan, options_.run, detour.avoid))) {
    return detour.why;
  }
  return plan;
}

StatusOr<FollowResult> Follower::Describe(const VersionRef& version, const VersionRef& head) {
  PULSE_ASSIGN_OR_RETURN(Manifest manifest, chain_.Load(version));
  FollowResult result;
  result.version = version;
  result.digest = manifest.target_digest;
  result.created_unix_ms = manifest.created_unix_ms;
  result.metadata = std::move(manifest.metadata);
  result.newest = head.id.number;
  return result;
}

Status Follower::CheckStop() const {
  return options_.stop && options_.stop() ? Cancelled("stopped on request") : OkStatus();
}

}  // namespace pulse
