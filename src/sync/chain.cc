#include "sync/chain.h"

#include <algorithm>

#include "core/sha256.h"
#include "sync/fetch.h"

namespace pulse {
namespace {

// Verified manifests that a reader keeps; many times a chain's length.
constexpr size_t kMaxLoaded = 4096;

// What the walk back from the target has found so far.
class PathFinder {
 public:
  PathFinder(const std::optional<LocalVersion>& local, uint64_t wanted)
      : local_(local), wanted_(wanted) {
    // Deltas only lead forward.
    local_reachable_ = local_ && local_->id.number <= wanted_;
  }

  // Manifests come newest first. Returns true when nothing further back can be cheaper.
  StatusOr<bool> Visit(const Manifest& manifest) {
    if (local_ && manifest.id.number == local_->id.number)
      PULSE_RETURN_IF_ERROR(CheckLocal(manifest));
    if (manifest.id.number > wanted_) return false;
    if (!target_) target_ = manifest;
    if (local_reachable_ && manifest.id.number == local_->id.number) {
      use_local_ = true;
      return true;
    }
    if (manifest.has(PayloadRole::kAnchor)) {
      const uint64_t cost = delta_bytes_ + manifest.bytes(PayloadRole::kAnchor);
      if (!anchor_ || cost < anchor_cost_) {
        anchor_ = manifest;
        anchor_cost_ = cost;
        deltas_above_anchor_ = deltas_.size();
      }
    }
    if (!manifest.has(PayloadRole::kDelta)) {
      local_reachable_ = false;
      return true;
    }
    deltas_.push_back(manifest);
    delta_bytes_ += manifest.bytes(PayloadRole::kDelta);
    // Further back only the local version could be cheaper: anchors of one model weigh about the
    // same.
    return anchor_ && (!local_reachable_ || delta_bytes_ >= anchor_cost_);
  }

  StatusOr<Plan> Finish(const VersionRef& target_ref) && {
    Plan plan;
    plan.target = target_ref;
    plan.target_digest = target_->target_digest;
    plan.from_local = use_local_ && (!anchor_ || delta_bytes_ <= anchor_cost_);
    size_t deltas = deltas_.size();
    if (!plan.from_local) {
      if (!anchor_) {
        return NotFound("version {} can't be rebuilt: no anchor at or below it is kept any more",
                        wanted_);
      }
      plan.steps.push_back({*anchor_, PayloadRole::kAnchor});
      deltas = deltas_above_anchor_;
    }
    for (size_t i = deltas; i-- > 0;) plan.steps.push_back({deltas_[i], PayloadRole::kDelta});
    plan.bytes = plan.from_local ? delta_bytes_ : anchor_cost_;
    return plan;
  }

  const std::optional<Manifest>& target() const { return target_; }

 private:
  Status CheckLocal(const Manifest& manifest) const {
    if (manifest.id == local_->id && manifest.target_digest == local_->digest) return OkStatus();
    return FailedPrecondition(
        "version {} in the bucket is not the one held here ({} against {}): the bucket has another "
        "history",
        manifest.id.number, manifest.id.Folder(), local_->id.Folder());
  }

  const std::optional<LocalVersion>& local_;
  uint64_t wanted_;
  bool local_reachable_ = false;
  bool use_local_ = false;
  std::optional<Manifest> target_;
  std::vector<Manifest> deltas_;  // newest first
  uint64_t delta_bytes_ = 0;
  std::optional<Manifest> anchor_;
  uint64_t anchor_cost_ = 0;
  size_t deltas_above_anchor_ = 0;
};

}  // namespace

StatusOr<ChainReader> ChainReader::Open(Store& store, ChainOptions options) {
  PULSE_RETURN_IF_ERROR(CheckRunName(options.run));
  if (!options.trusted_key.empty()) {
    PULSE_ASSIGN_OR_RETURN(options.trusted_key, PublicKeyHex(options.trusted_key));
  }
  return ChainReader(store, std::move(options));
}

StatusOr<HeadAt> ChainReader::Head() {
  return ReadHead(*store_, options_.run);
}

StatusOr<Manifest> ChainReader::Read(const VersionRef& ref) {
  const std::string key = ManifestKey(options_.run, ref.id);
  auto object = store_->Get(key, kMaxManifestBytes);
  if (absl::IsResourceExhausted(object.status()))
    return DataLoss("{}: too large for a manifest", key);
  PULSE_RETURN_IF_ERROR(object.status());
  if (Sha256Hex(object->bytes) != ref.manifest_sha256) {
    return DataLoss("{}: its SHA-256 is not the one that the chain names", key);
  }
  auto manifest = ParseManifest(object->bytes);
  PULSE_RETURN_IF_ERROR(Annotate(manifest.status(), key));
  if (manifest->id != ref.id || manifest->run != options_.run) {
    return DataLoss("{}: it describes version {} of run \"{}\"", key, manifest->id.Folder(),
                    manifest->run);
  }
  if (!options_.trusted_key.empty()) {
    PULSE_RETURN_IF_ERROR(CheckManifestSignature(*manifest, options_.trusted_key));
  }
  return manifest;
}

StatusOr<Manifest> ChainReader::Load(const VersionRef& ref) {
  const auto known = loaded_.find(ref.manifest_sha256);
  if (known != loaded_.end() && known->second.id == ref.id) return known->second;
  PULSE_ASSIGN_OR_RETURN(Manifest manifest, Read(ref));
  if (loaded_.size() >= kMaxLoaded) loaded_.clear();
  loaded_.insert_or_assign(ref.manifest_sha256, manifest);
  return manifest;
}

StatusOr<std::vector<Manifest>> ChainReader::Walk(
    const VersionRef& from, const std::function<StatusOr<bool>(const Manifest&)>& stop) {
  std::vector<Manifest> manifests;
  std::optional<VersionRef> ref = from;
  while (ref) {
    auto manifest = Load(*ref);
    // Retention ends a chain by removing manifests; but never that of the version a head names.
    if (absl::IsNotFound(manifest.status()) && !manifests.empty()) break;
    PULSE_RETURN_IF_ERROR(manifest.status());
    if (!manifests.empty()) PULSE_RETURN_IF_ERROR(CheckSuccession(*manifest, manifests.back()));
    manifests.push_back(*std::move(manifest));
    PULSE_ASSIGN_OR_RETURN(const bool enough, stop(manifests.back()));
    if (enough) break;
    ref = manifests.back().parent;
  }
  return manifests;
}

StatusOr<Plan> ChainReader::PlanTo(std::optional<uint64_t> number,
                                   const std::optional<LocalVersion>& local) {
  PULSE_ASSIGN_OR_RETURN(const HeadAt head, Head());
  if (!head.head.version) return NotFound("run \"{}\": nothing is published yet", run());
  const VersionRef newest = *head.head.version;
  if (local) PULSE_RETURN_IF_ERROR(CheckNotBehind(newest.id, local->id));
  const uint64_t wanted = number.value_or(newest.id.number);
  if (wanted > newest.id.number) {
    return NotFound("run \"{}\": version {} is not published, the newest is {}", run(), wanted,
                    newest.id.number);
  }
  PathFinder finder(local, wanted);
  PULSE_ASSIGN_OR_RETURN(
      const std::vector<Manifest> walked,
      Walk(newest, [&](const Manifest& manifest) { return finder.Visit(manifest); }));
  if (!finder.target()) {
    return NotFound("run \"{}\": version {} is not kept any more, the oldest is {}", run(), wanted,
                    walked.back().id.number);
  }
  VersionRef target = newest;
  for (const Manifest& manifest : walked) {
    if (manifest.parent && manifest.parent->id.number == wanted) target = *manifest.parent;
  }
  return std::move(finder).Finish(target);
}

Status ChainReader::Fetch(const Manifest& manifest, const ManifestObject& object,
                          const std::function<Status(ByteView)>& sink) {
  return FetchObject(
      *store_, ObjectKey(options_.run, manifest.id, object.Name()),
      {.bytes = object.bytes, .sha256 = object.sha256, .threads = options_.fetch_threads}, sink);
}

Status CheckNotBehind(const VersionId& head, const VersionId& seen) {
  if (head.number < seen.number || head.epoch < seen.epoch) {
    return FailedPrecondition(
        "the bucket went back: its head is version {} of epoch {}, but version {} of epoch {} was "
        "seen",
        head.number, head.epoch, seen.number, seen.epoch);
  }
  if (head.number == seen.number && head != seen) {
    return FailedPrecondition(
        "the bucket has another version {} than the one that was seen ({} against {})", head.number,
        head.Folder(), seen.Folder());
  }
  return OkStatus();
}

Status CheckPayload(const Manifest& manifest, PayloadRole role, const PayloadFile& file) {
  const PayloadInfo& info = file.info();
  const bool fits =
      info.role == role && info.run == manifest.run && info.target == manifest.id.Short() &&
      info.target_digest == manifest.target_digest &&
      SchemaDigest(file.schema()) == manifest.schema_digest &&
      (role == PayloadRole::kAnchor ||
       (info.base_digest == manifest.base_digest && info.base == manifest.parent->id.Short()));
  if (fits) return OkStatus();
  return DataLoss(
      "version {}: its {} file says that it is of version {}, run \"{}\", or of another model",
      manifest.id.number, NameOf(role), info.target, info.run);
}

StatusOr<ChainView> StackPlan(const kernels::KernelTable& kernels, const Plan& plan,
                              const ViewSource* base,
                              const std::function<StatusOr<std::shared_ptr<const ByteSource>>(
                                  const PlanStep&, const ManifestObject&)>& open) {
  if (plan.from_local != (base != nullptr)) {
    return InvalidArgument("the plan starts from {}",
                           plan.from_local ? "a local base" : "an anchor");
  }
  ChainView chain;
  chain.top = base;
  for (const PlanStep& step : plan.steps) {
    std::vector<std::shared_ptr<const PayloadFile>> files;
    for (const ManifestObject& object : step.manifest.objects) {
      if (object.role != step.role) continue;
      PULSE_ASSIGN_OR_RETURN(auto source, open(step, object));
      auto file = PayloadFile::Open(std::move(source));
      PULSE_RETURN_IF_ERROR(
          Annotate(file.status(), fmt::format("{}/{}", step.manifest.id.Folder(), object.Name())));
      PULSE_RETURN_IF_ERROR(CheckPayload(step.manifest, step.role, **file));
      files.push_back(*std::move(file));
    }
    const ViewSource* below = step.role == PayloadRole::kDelta ? chain.top : nullptr;
    PULSE_ASSIGN_OR_RETURN(auto view, PayloadView::Make(kernels, std::move(files), below));
    chain.layers.push_back(std::move(view));
    chain.top = chain.layers.back().get();
  }
  return chain;
}

}  // namespace pulse
