// The part of Follower that moves bytes: from a plan to the new version in its place.
#include <algorithm>

#include "inference_bridge/fetch.h"
#include "inference_bridge/follower.h"
#include "inference_bridge/rebuild.h"

namespace pulse {
namespace {

// Seconds since the last call.
class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock), last_ns_(clock.NowNs()) {}
  double Lap() {
    const int64_t now_ns = clock_.NowNs();
    return static_cast<double>(now_ns - std::exchange(last_ns_, now_ns)) * 1e-9;
  }

 private:
  const Clock& clock_;
  int64_t last_ns_;
};

}  // namespace

StatusOr<ChainView> Follower::FetchAndStack(const Plan& plan, Detour& detour,
                                            FollowResult& result) {
  std::vector<FetchItem> items;
  std::map<std::string, size_t> item_of;
  for (const PlanStep& step : plan.steps) {
    for (const ManifestObject& object : step.manifest.objects) {
      if (object.role != step.role) continue;
      std::string key = ObjectKey(options_.run, step.manifest.id, object.Name());
      item_of[key] = items.size();
      items.push_back({std::move(key), object.bytes, object.sha256});
      result.bytes += object.bytes;
    }
  }
  result.objects = items.size();

  FetchOptions fetch;
  fetch.parallel = options_.parallel_fetches;
  const uint64_t working =
      std::max(static_cast<uint64_t>(2 * fetch.parallel + 1) * fetch.piece_bytes,
               static_cast<uint64_t>(options_.threads) * kRebuildBytesPerThread);
  fetch.memory_bytes = options_.memory_bytes > working ? options_.memory_bytes - working : 0;
  fetch.spool_path = output_->spool_path();
  fetch.on_bytes = [&](uint64_t done) {
    if (options_.progress) options_.progress(FollowPhase::kFetch, done, result.bytes);
    return CheckStop();
  };
  Fetched fetched = FetchObjects(deps_.store, deps_.fs, items, fetch);
  detour.object = std::move(fetched.failed_key);
  PULSE_RETURN_IF_ERROR(fetched.status);

  return StackPlan(
      deps_.kernels, plan, plan.from_local ? &local_->view() : nullptr,
      [&](const PlanStep& step,
          const ManifestObject& object) -> StatusOr<std::shared_ptr<const ByteSource>> {
        return fetched
            .sources[item_of.at(ObjectKey(options_.run, step.manifest.id, object.Name()))];
      });
}

Status Follower::Build(const Plan& plan, Detour& detour, FollowResult& result) {
  const LocalVersion version{plan.target.id, plan.target_digest};
  Stopwatch watch(deps_.clock);
  PULSE_ASSIGN_OR_RETURN(ChainView chain, FetchAndStack(plan, detour, result));
  result.fetch_seconds = watch.Lap();

  const ModelSchema& schema = chain.top->schema();
  PULSE_ASSIGN_OR_RETURN(const std::string path, output_->Stage(version.id));
  PULSE_ASSIGN_OR_RETURN(
      const auto writer,
      CheckpointWriter::Create(deps_.fs, path, schema, FollowMetadata(options_.run, version)));
  Status rebuilt = AppendView(*chain.top, options_.threads, *writer, [&](uint64_t done) {
    if (options_.progress) options_.progress(FollowPhase::kRebuild, done, schema.bytes());
    return CheckStop();
  });
  if (rebuilt.ok()) {
    PULSE_ASSIGN_OR_RETURN(const ViewDigests digests, writer->Finish());
    if (digests.view != version.digest) {
      rebuilt = DataLoss("version {} was rebuilt with the digest {}, but its publisher had {}",
                         version.id.number, digests.view.Hex(), version.digest.Hex());
    }
  }
  detour.suspect_base = absl::IsDataLoss(rebuilt) && plan.from_local;
  PULSE_RETURN_IF_ERROR(rebuilt);
  result.rebuild_seconds = watch.Lap();

  result.view_bytes = schema.bytes();

  // Whatever fails from here on, the next step looks afresh at what is in place.
  chain = ChainView();
  local_.reset();
  confirmed_ = false;
  PULSE_RETURN_IF_ERROR(writer->Commit());
  PULSE_RETURN_IF_ERROR(output_->Link(version.id));
  PULSE_ASSIGN_OR_RETURN(local_, LocalCopy::Trust(deps_.fs, output_->file(), version));
  confirmed_ = true;
  result.swap_seconds = watch.Lap();
  result.changed = true;
  result.from_anchor = !plan.from_local;
  result.versions = plan.steps.size();
  return OkStatus();
}

}  // namespace pulse
