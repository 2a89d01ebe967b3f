#include "sync/publisher.h"

#include <algorithm>

#include "sync/codec_measurement.h"
#include "sync/publisher_state.h"
#include "sync/restore_base.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint64_t kTellingUpload = uint64_t{1} << 20;

Status CheckMetadata(const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    if (!IsUtf8(key) || !IsUtf8(value)) return InvalidArgument("metadata \"{}\" is not UTF-8", key);
  }
  return OkStatus();
}

}  // namespace

PartOptions PartOf(const PublisherOptions& options, uint32_t part) {
  return {.run = options.run,
          .part = part,
          .ranges = options.ranges,
          .threads = options.threads,
          .spool_directory = options.state_directory,
          .memory_bytes = options.memory_bytes,
          .read_back = options.read_back};
}

Publisher::Publisher(PublisherOptions options, PublisherDeps deps, ChainReader chain)
    : options_(std::move(options)),
      deps_(deps),
      chain_(std::move(chain)),
      base_(deps.fs, deps.kernels, options_.state_directory, options_.base) {}

Publisher::~Publisher() = default;

StatusOr<std::unique_ptr<Publisher>> Publisher::Open(PublisherOptions options, PublisherDeps deps) {
  PULSE_ASSIGN_OR_RETURN(
      ChainReader chain,
      ChainReader::Open(deps.store, {.run = options.run, .trusted_key = options.trusted_key}));
  std::unique_ptr<Publisher> publisher(new Publisher(std::move(options), deps, std::move(chain)));
  PULSE_ASSIGN_OR_RETURN(publisher->conditional_, deps.store.HonoursConditions());
  if (!publisher->conditional_ && !publisher->options_.single_writer) {
    return FailedPrecondition(
        "{} ignores conditional puts, so two publishers could overwrite each other: make sure that "
        "there is "
        "one only, and say so (--single-writer)",
        deps.store.uri());
  }
  PULSE_RETURN_IF_ERROR(publisher->OpenState());
  PULSE_RETURN_IF_ERROR(publisher->Resolve());
  return publisher;
}

// Locks the state folder, and continues its epoch or raises it.
Status Publisher::OpenState() {
  std::optional<PublisherState> state;
  if (const std::string& directory = options_.state_directory; !directory.empty()) {
    PULSE_ASSIGN_OR_RETURN(
        lock_, LockPublisherState(deps_.fs, directory, deps_.log,
                                  Deadline::After(deps_.clock, options_.lock_timeout_ms)));
    PULSE_ASSIGN_OR_RETURN(state, LoadPublisherState(deps_.fs, directory));
    if (state && state->run != options_.run) {
      return FailedPrecondition("{} is the state of run \"{}\", not of \"{}\": use another folder",
                                directory, state->run, options_.run);
    }
  }
  std::optional<HeadAt> head;
  auto read = chain_.Head();
  if (read.ok()) head = *std::move(read);
  if (!head && !absl::IsNotFound(read.status())) return read.status();
  const bool still_ours =
      head && state && head->head.epoch == state->epoch && head->head.publisher == state->publisher;
  if (still_ours && !options_.take_over) {
    identity_ = state->publisher;
    current_ = *std::move(head);
    return OkStatus();
  }
  return TakeOver(head);
}

Status Publisher::TakeOver(const std::optional<HeadAt>& current) {
  Head next;
  next.run = options_.run;
  next.epoch = current ? current->head.epoch + 1 : 1;
  next.publisher = deps_.nonces.Next();
  next.nonce = deps_.nonces.Next();
  if (current) next.version = current->head.version;
  if (!options_.state_directory.empty()) {
    // Before the swap: dying in between, we find our own epoch again. A state whose swap was lost
    // names a pair that no head ever has.
    PULSE_RETURN_IF_ERROR(
        SavePublisherState(deps_.fs, options_.state_directory,
                           {.run = next.run, .epoch = next.epoch, .publisher = next.publisher}));
  }
  auto swapped = SwapHead(deps_.store, current, next, conditional_);
  PULSE_RETURN_IF_ERROR(Annotate(swapped.status(), "taking the run over"));
  identity_ = next.publisher;
  current_ = *std::move(swapped);
  deps_.log.info("run \"{}\": publisher of epoch {} from version {} on", next.run, next.epoch,
                 next.version ? next.version->id.number : 0);
  return OkStatus();
}

// Reads where the run stands, and makes the base fit it.
Status Publisher::Resolve() {
  auto head = chain_.Head();
  PULSE_RETURN_IF_ERROR(head.status());
  if (head->head.epoch != current_.head.epoch || head->head.publisher != identity_) {
    lost_ = true;
    return Aborted("another publisher took run \"{}\" over: epoch {} against {}", options_.run,
                   head->head.epoch, current_.head.epoch);
  }
  current_ = *std::move(head);
  PULSE_RETURN_IF_ERROR(FindBase());
  resolved_ = true;
  return OkStatus();
}

// The head decides which base holds: the one in use, one in the folder, or one rebuilt from the
// bucket.
Status Publisher::FindBase() {
  const std::optional<VersionRef>& version = current_.head.version;
  std::optional<LocalVersion> known;
  if (tip_ && base_.version() == tip_->id) known = LocalVersion{tip_->id, tip_->target_digest};
  tip_.reset();
  if (!version) {
    base_.Drop();
    base_.RemoveLeftovers(std::nullopt);
    return OkStatus();
  }
  auto tip = chain_.Load(*version);
  Status found = tip.status();
  if (tip.ok()) {
    tip_ = *std::move(tip);
    found = RestoreBase(chain_, deps_.kernels, version->id, options_.ranges, known, base_);
  }
  if (found.ok()) {
    base_.RemoveLeftovers(version->id);
    return OkStatus();
  }
  base_.Drop();
  if (!BaseIsLost(found)) return found;
  deps_.log.error("version {} can't be rebuilt, the next one will have an anchor: {}",
                  version->id.number, ToStd(found.message()));
  return OkStatus();
}

StatusOr<Attempt> Publisher::Begin(const ModelSchema& schema, const PublishOptions& options) {
  if (lost_) {
    return Aborted(
        "this publisher of run \"{}\" has lost to another one: open it again to take over",
        options_.run);
  }
  PULSE_RETURN_IF_ERROR(CheckMetadata(options.metadata));
  if (!resolved_) PULSE_RETURN_IF_ERROR(Resolve());
  const std::optional<VersionRef>& last = current_.head.version;
  Attempt attempt;
  attempt.id = {current_.head.epoch, last ? last->id.number + 1 : 1, deps_.nonces.Next()};
  attempt.codec = options_.codec == CodecSetting::kFast ? RangeCodec::kFast : RangeCodec::kSmall;
  if (options.anchor) attempt.anchor_reason = "asked";
  if (!last) {
    attempt.anchor_reason = "first";
    return attempt;
  }
  if (tip_ && tip_->schema_digest != SchemaDigest(schema)) {
    if (options.anchor) return attempt;
    const Status differs =
        base_.view()
            ? RequireSameSchema(base_.view()->schema(), "the last version", schema, "this one")
            : FailedPrecondition("the schema is another than the last version's");
    return FailedPrecondition("{}: a changed model needs an anchor (--anchor)",
                              ToStd(differs.message()));
  }
  if (tip_ && base_.view()) {
    attempt.base = last->id;
  } else {
    attempt.anchor_reason = "base lost";
  }
  return attempt;
}

std::string Publisher::AnchorReason(const Attempt& attempt, const CombinedDigests& digests,
                                    uint64_t view_bytes) const {
  if (!attempt.anchor_reason.empty() || !tip_) return attempt.anchor_reason;
  const uint64_t chain_bytes = tip_->chain_bytes + digests.blob_bytes;
  if (static_cast<double>(chain_bytes) > options_.anchor_share * static_cast<double>(view_bytes)) {
    return "cost";
  }
  return tip_->chain_length + 1 > options_.max_chain_length ? "length" : "";
}

StatusOr<Published> Publisher::WriteManifest(const Attempt& attempt, const ModelSchema& schema,
                                             const CombinedDigests& digests,
                                             std::vector<ManifestObject> objects,
                                             const std::string& anchor_reason,
                                             const PublishOptions& options) {
  PULSE_RETURN_IF_ERROR(CheckBase(attempt, digests));
  if (anchor_reason.empty() && (!tip_ || !attempt.base)) {
    return InvalidArgument("version {} has nothing to start from, so it must have an anchor",
                           attempt.id.number);
  }
  Published version;
  Manifest& manifest = version.manifest;
  manifest.run = options_.run;
  manifest.id = attempt.id;
  manifest.created_unix_ms = deps_.clock.UnixNs() / kNsPerMs;
  manifest.parent = current_.head.version;
  manifest.target_digest = digests.target.view;
  manifest.schema_digest = SchemaDigest(schema);
  std::ranges::sort(objects, [](const ManifestObject& a, const ManifestObject& b) {
    return std::tie(a.role, a.part) < std::tie(b.role, b.part);
  });
  manifest.objects = std::move(objects);
  if (attempt.base) {
    manifest.base_digest = digests.base.view;
    manifest.changed = digests.changed;
    manifest.codec = NameOf(attempt.codec);
  }
  if (anchor_reason.empty()) {
    manifest.chain_bytes = tip_->chain_bytes + manifest.bytes(PayloadRole::kDelta);
    manifest.chain_length = tip_->chain_length + 1;
  }
  manifest.reason = anchor_reason;
  manifest.metadata = options.metadata;
  if (options_.signing_key) PULSE_RETURN_IF_ERROR(SignManifest(*options_.signing_key, manifest));
  const std::string text = SerializeManifest(manifest);
  // What we would not read we may not publish.
  if (const auto parsed = ParseManifest(AsBytes(text)); !parsed.ok()) {
    return InvalidArgument("version {} can't be described: {}", attempt.id.number,
                           ToStd(parsed.status().message()));
  }
  version.ref.id = attempt.id;
  PULSE_ASSIGN_OR_RETURN(version.ref.manifest_sha256,
                         PutAndVerify(deps_.store, ManifestKey(options_.run, attempt.id),
                                      MemorySource(AsBytes(text)), /*read_back=*/true));
  return version;
}

Status Publisher::CheckBase(const Attempt& attempt, const CombinedDigests& digests) const {
  if (!attempt.base || digests.base.view == tip_->target_digest) return OkStatus();
  return DataLoss("the base held here has digest {}, but version {} has {}",
                  digests.base.view.Hex(), attempt.base->number, tip_->target_digest.Hex());
}

Status Publisher::Commit(const Published& version) {
  Head next = current_.head;
  next.nonce = deps_.nonces.Next();
  next.version = version.ref;
  auto swapped = SwapHead(deps_.store, current_, next, conditional_);
  if (swapped.ok()) {
    current_ = *std::move(swapped);
    tip_ = version.manifest;
    unanswered_.clear();
    resolved_ = base_.keeps_copy();  // which Promote makes
    return OkStatus();
  }
  resolved_ = false;
  if (!absl::IsAborted(swapped.status())) {
    unanswered_.push_back(next.nonce);
    return swapped.status();
  }
  // Was it an earlier swap of our own that arrived late?
  const auto now = chain_.Head();
  if (now.ok() && std::ranges::count(unanswered_, now->head.nonce) > 0) {
    return Unavailable("an earlier version that was given up did arrive: publish again behind it");
  }
  lost_ = true;
  return swapped.status();
}

StatusOr<CodecDecision> Publisher::Choose(const ViewSource& before, const ViewSource& after) const {
  if (!(link_bytes_per_s_ > 0)) return ChooseCodec({});  // nothing that times could decide
  PULSE_ASSIGN_OR_RETURN(CodecCosts costs,
                         MeasureCodecs(deps_.kernels, before, after, AllCells(after.schema()),
                                       options_.threads, deps_.clock));
  costs.link_bytes_per_s = link_bytes_per_s_;
  return ChooseCodec(costs);
}

void Publisher::NoteUpload(const std::vector<ManifestObject>& objects, int64_t took_ns) {
  uint64_t bytes = 0;
  for (const ManifestObject& object : objects) bytes += object.bytes;
  // Reading back is another crossing. Smaller ones tell of round trips and not of the rate.
  if (options_.read_back) bytes *= 2;
  if (bytes < kTellingUpload || took_ns <= 0) return;
  link_bytes_per_s_ = static_cast<double>(bytes) * 1e9 / static_cast<double>(took_ns);
}

StatusOr<EncodedPart> Publisher::Encode(Attempt& attempt, const ViewSource& view,
                                        PublishOptions& described) {
  const ViewSource* before = attempt.base ? base_.view() : nullptr;
  if (before != nullptr && options_.codec == CodecSetting::kAuto) {
    PULSE_ASSIGN_OR_RETURN(CodecDecision decision, Choose(*before, view));
    attempt.codec = decision.codec;
    described.metadata[kCodecReasonKey] = std::move(decision.reason);
  }
  return EncodePart(deps_.fs, deps_.kernels, PartOf(options_, 0), attempt, before, view,
                    described.progress);
}

StatusOr<Published> Publisher::Publish(const ViewSource& view, const PublishOptions& options) {
  const ModelSchema& schema = view.schema();
  if (!options_.ranges.empty()) {
    return InvalidArgument("this publisher owns a share of the model only: publish step by step");
  }
  PULSE_ASSIGN_OR_RETURN(Attempt attempt, Begin(schema, options));
  PublishOptions described = options;
  const auto encoded = Encode(attempt, view, described);
  if (attempt.base && !base_.keeps_copy() && BaseIsLost(encoded.status())) {
    deps_.log.error("version {} can't be rebuilt, publishing an anchor: {}", attempt.base->number,
                    ToStd(encoded.status().message()));
    base_.Drop();
    return Publish(view, options);
  }
  PULSE_RETURN_IF_ERROR(encoded.status());
  const EncodedPart& part = *encoded;
  PULSE_ASSIGN_OR_RETURN(const CombinedDigests digests, CombineParts(schema, {part.digests}));
  if (const Status checked = CheckBase(attempt, digests); !checked.ok()) {
    // Bits rotted where the base lies. The delta would be useless, and nothing names it yet.
    deps_.log.error("{}: publishing an anchor instead", ToStd(checked.message()));
    base_.Drop();
    return Publish(view, options);
  }
  const std::string reason = AnchorReason(attempt, digests, schema.bytes());
  const int64_t upload_ns = deps_.clock.NowNs();
  PULSE_ASSIGN_OR_RETURN(
      std::vector<ManifestObject> objects,
      UploadPart(deps_.store, PartOf(options_, 0), attempt, part, digests, view, !reason.empty()));
  NoteUpload(objects, deps_.clock.NowNs() - upload_ns);
  PULSE_ASSIGN_OR_RETURN(Published version, WriteManifest(attempt, schema, digests,
                                                          std::move(objects), reason, described));
  const bool unchanged = attempt.base && digests.changed == 0;
  PULSE_RETURN_IF_ERROR(base_.Stage(attempt.id, view, {}, unchanged));
  PULSE_RETURN_IF_ERROR(Commit(version));
  if (const Status promoted = base_.Promote(attempt.id, view, {}); !promoted.ok()) {
    // Published all the same; the next call finds its base again.
    deps_.log.warn("the base of version {} could not be taken into use: {}", attempt.id.number,
                   ToStd(promoted.message()));
    resolved_ = false;
  }
  return version;
}

StatusOr<Published> Publisher::Publish(const ModelView& view, const PublishOptions& options) {
  return Publish(ModelViewSource(view), options);
}

StatusOr<Published> Publisher::Find(uint64_t number) {
  const std::optional<VersionRef>& newest = current_.head.version;
  if (!newest || number > newest->id.number) {
    return NotFound("run \"{}\": version {} is not published", options_.run, number);
  }
  PULSE_ASSIGN_OR_RETURN(
      const std::vector<Manifest> walked,
      chain_.Walk(*newest, [&](const Manifest& manifest) { return manifest.id.number <= number; }));
  if (walked.back().id.number != number) {
    return NotFound("run \"{}\": version {} is not kept any more", options_.run, number);
  }
  const VersionRef ref = walked.size() == 1 ? *newest : *walked[walked.size() - 2].parent;
  return Published{ref, walked.back()};
}

}  // namespace pulse
