#include "app/training_record.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "app/evaluation.h"
#include "app/retain.h"
#include "sync/checkpoint.h"
#include "sync/master_view.h"

namespace pulse {
namespace {

using nlohmann::json;

constexpr char kPublishedNote[] = "published_number";  // in a checkpoint

json ToJson(const loco::PhaseSeconds& s) {
  return {{"compute", s.compute},   {"gate", s.gate},   {"meet", s.meet},
          {"exchange", s.exchange}, {"outer", s.outer}, {"digest", s.digest}};
}

json ToJson(const loco::RoundReport& r) {
  return {{"type", "round"},
          {"round", r.round},
          {"seconds", r.seconds.total()},
          {"dropped", r.dropped},
          {"skipped", r.skipped},
          {"metrics", r.metrics},
          {"entries", r.entries},
          {"gate_density", r.gate_density},
          {"view_changes", r.view_changes},
          {"view_density", r.view_change_density},
          {"exchange", r.exchange},
          {"sent_bytes", r.traffic.sent},
          {"received_bytes", r.traffic.received},
          {"payload_bytes", r.traffic_of_all.contribution},
          {"estimate",
           {{"received_bytes", r.estimate.rank_bytes},
            {"link_bytes", r.estimate.link_bytes},
            {"seconds", r.estimate.seconds}}},
          {"most_received_bytes", r.most_received},
          {"dense_diloco_bytes", r.dense_diloco_bytes},
          {"ddp_bytes", r.ddp_bytes},
          {"theta_digest", r.theta.Hex()},
          {"phases", ToJson(r.seconds)},
          {"slowest_phases", ToJson(r.slowest)}};
}

double Ratio(const Metrics& metrics, const char* sum, const char* count) {
  const auto s = metrics.find(sum);
  const auto c = metrics.find(count);
  return s == metrics.end() || c == metrics.end() || c->second == 0 ? 0 : s->second / c->second;
}

}  // namespace

Status RequireNoRun(Filesystem& fs, const RunFolder& folder) {
  const Status found = fs.Stat(folder.Metrics()).status();
  if (found.ok()) {
    return AlreadyExists(
        "{} holds a run already; continue it with --resume, set another run.dir, or remove the "
        "folder",
        folder.path);
  }
  return absl::IsNotFound(found) ? OkStatus() : found;
}

bool IsPublished(const RunConfig& config, uint64_t round, bool last) {
  return config.publish.enabled && (last || round % config.publish.every == 0);
}

bool IsLast(const RunConfig& config, const loco::RoundReport& report) {
  return report.stopping || report.round == config.loco.rounds;
}

MastersParts MastersOf(const RunConfig& config, Communicator* trainer, const ModelSchema& masters,
                       const loco::State& state, uint64_t begin, const Clock& clock) {
  return {.group = trainer,
          .schema = masters,
          .shard = state.theta,
          .begin = begin,
          .clock = clock,
          .timeout_ms = PublishTimeoutMs(config)};
}

StatusOr<std::unique_ptr<TrainingRecord>> TrainingRecord::Create(TrainingRecordDeps deps) {
  PULSE_ASSIGN_OR_RETURN(ModelSchema masters, loco::MasterSchema(deps.trainer.schema()));
  std::unique_ptr<TrainingRecord> record(new TrainingRecord(deps, std::move(masters)));
  if (!deps.resume) {
    // What it continues behind, a resumed run learns later.
    PULSE_ASSIGN_OR_RETURN(record->metrics_,
                           MetricsFile::Create(deps.fs, record->folder_.Metrics()));
  }
  PULSE_RETURN_IF_ERROR(WriteFileAtomically(deps.fs, record->folder_.Config(),
                                            AsBytes(std::string_view(ConfigToYaml(deps.config)))));
  return record;
}

Status TrainingRecord::Evaluate(const char* when, const Masters& masters) {
  const uint64_t samples = deps_.config.evaluate.samples;
  if (samples == 0) return OkStatus();
  live_.Show(fmt::format("measuring the {} weights on {} samples", when, samples));
  std::vector<float> room;
  PULSE_ASSIGN_OR_RETURN(const std::span<const float> weights, masters.All(room));
  PULSE_ASSIGN_OR_RETURN(const Metrics metrics,
                         deps_.trainer.Evaluate(weights, samples, EvaluationSeed(deps_.config)));
  return Append(
      json{{"type", "evaluation"}, {"when", when}, {"samples", samples}, {"metrics", metrics}}
          .dump());
}

Status TrainingRecord::Publish(const loco::State& state, uint64_t round, bool final) {
  if (deps_.publisher == nullptr) return OkStatus();
  const int64_t start_ns = deps_.console.clock->NowNs();
  const auto publish = [&]() -> StatusOr<std::optional<Published>> {
    if (deps_.device != nullptr) return PublishFromDevice(round, final);
    const auto view = MasterView::OfShard(deps_.kernels, deps_.trainer.schema(), state.theta, 0);
    if (!view.ok()) return deps_.publisher->Decline(view.status());
    return deps_.publisher->Publish(*view, round, final);
  };
  PULSE_ASSIGN_OR_RETURN(const auto published, publish());
  if (!published) return OkStatus();
  const Manifest& m = published->manifest;
  last_patch_bytes_ = m.bytes(PayloadRole::kDelta);
  const auto seconds = static_cast<double>(deps_.console.clock->NowNs() - start_ns) * 1e-9;
  // Once per anchor, since only an anchor lets older versions go.
  if (deps_.config.publish.keep > 0 && m.has(PayloadRole::kAnchor)) {
    RetainNewest(deps_.publisher->store(), m.run, deps_.config.publish.keep, *deps_.console.clock,
                 deps_.log);
  }
  return Append(json{
      {"type", "version"},
      {"round", round},
      {"version", m.id.Short()},
      {"digest", m.target_digest.Hex()},
      {"changed", m.changed},
      {"delta_bytes", last_patch_bytes_},
      {"anchor_bytes", m.bytes(PayloadRole::kAnchor)},
      {"checkpoint_bytes", deps_.trainer.schema().bytes()},
      {"seconds",
       seconds}}.dump());
}

// Codec auto is settled by the publisher, after the device has encoded: small then, which brings
// the fewest bytes over the bus; where it chooses fast, the host encodes.
StatusOr<std::optional<Published>> TrainingRecord::PublishFromDevice(uint64_t round, bool final) {
  const Deadline deadline = Deadline::After(
      *deps_.console.clock, static_cast<int64_t>(deps_.config.loco.long_deadline_ms));
  if (device_view_ == nullptr) {
    const CodecId codec =
        deps_.config.publish.codec == "fast" ? CodecId::kWordDeltaFast : CodecId::kWordDeltaSmall;
    PULSE_ASSIGN_OR_RETURN(device_view_, DeviceView::Make(*deps_.device, deps_.kernels,
                                                          deps_.trainer.schema(), codec, deadline));
  } else {
    PULSE_RETURN_IF_ERROR(device_view_->Update(deadline));
  }
  return deps_.publisher->Publish(*device_view_, round, final);
}

// The last weights are written and measured; those of versions, where they are on the host.
bool TrainingRecord::ReadsTheta(uint64_t round, bool last) const {
  return last || (IsPublished(deps_.config, round, last) && deps_.device == nullptr);
}

Status TrainingRecord::OnStart(const loco::State& state) {
  const Status begun = WithMasters(Parts(state), [&](const Masters& all) { return Begin(all); });
  if (!begun.ok()) return deps_.publisher ? deps_.publisher->Decline(begun) : begun;
  PULSE_RETURN_IF_ERROR(Publish(state, 0, false));
  started_ns_ = deps_.console.clock->NowNs();
  return OkStatus();
}

// What comes before the first version.
Status TrainingRecord::Begin(const Masters& masters) {
  if (deps_.resume) {
    PULSE_ASSIGN_OR_RETURN(const uint64_t lost, RecordedRounds(deps_.fs, folder_.Metrics()));
    if (lost > 0) {
      return FailedPrecondition(
          "{} holds a run of {} rounds and no checkpoint to resume it from; remove the folder to "
          "start again, or say where its checkpoints are (checkpoint.folder)",
          folder_.path, lost);
    }
    const Status removed = deps_.fs.Remove(folder_.Metrics());
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
    PULSE_ASSIGN_OR_RETURN(metrics_, MetricsFile::Create(deps_.fs, folder_.Metrics()));
    if (deps_.publisher != nullptr) deps_.publisher->ContinueBehind(0);
  }
  PULSE_RETURN_IF_ERROR(Append(json{
      {"type", "start"},
      {"mode", deps_.config.loco.mode},
      {"trainers", deps_.trainers},
      {"ranks_per_trainer", deps_.config.loco.ranks_per_trainer},
      {"local_steps", deps_.config.loco.local_steps},
      {"rollout_weights", deps_.config.loco.rollout_weights},
      {"parameters", deps_.trainer.schema().elements()},
      {"kernels",
       deps_.kernels.name}}.dump()));
  PULSE_RETURN_IF_ERROR(WriteCheckpoint(deps_.fs, folder_.InitialWeights(), masters, {}).status());
  return Evaluate("initial", masters);
}

Status TrainingRecord::OnResume(const loco::State& state, const loco::Notes& notes) {
  PULSE_ASSIGN_OR_RETURN(metrics_, MetricsFile::Continue(deps_.fs, folder_.Metrics(), state.round,
                                                         deps_.config.loco.rounds));
  const auto published = notes.find(kPublishedNote);
  if (deps_.publisher != nullptr && published != notes.end()) {
    uint64_t number = 0;
    const std::string& text = published->second;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) {
      return DataLoss("the checkpoint's note \"{}\" is \"{}\"", kPublishedNote, text);
    }
    deps_.publisher->ContinueBehind(number);
  }
  deps_.log.info("resumed after round {} of {}", state.round, deps_.config.loco.rounds);
  first_round_ = state.round;
  started_ns_ = deps_.console.clock->NowNs();
  return Append(json{{"type", "resume"}, {"round", state.round}}.dump());
}

loco::Notes TrainingRecord::CheckpointNotes() {
  if (deps_.publisher == nullptr) return {};
  return {{kPublishedNote, std::to_string(deps_.publisher->last_number())}};
}

Status TrainingRecord::OnRound(const loco::State& state, const loco::RoundReport& report) {
  Status local = Append(ToJson(report).dump());
  const bool last = IsLast(deps_.config, report);
  if (IsPublished(deps_.config, report.round, last)) {
    local = local.ok() ? Publish(state, report.round, last) : deps_.publisher->Decline(local);
  }
  if (local.ok()) Show(report);
  if (!last) return local;
  return WithMasters(Parts(state), [&](const Masters& masters) {
    return local.ok() ? End(report, masters) : local;
  });
}

Status TrainingRecord::End(const loco::RoundReport& report, const Masters& masters) {
  PULSE_RETURN_IF_ERROR(Evaluate("final", masters));
  WriteCheckpointOptions options;
  options.expected = report.theta;
  PULSE_RETURN_IF_ERROR(
      WriteCheckpoint(deps_.fs, folder_.FinalWeights(), masters, options).status());
  PULSE_RETURN_IF_ERROR(
      Append(json{{"type", "end"}, {"round", report.round}, {"stopped", report.stopping}}.dump()));
  return metrics_->Close();
}

void TrainingRecord::Show(const loco::RoundReport& report) {
  const uint64_t rounds = deps_.config.loco.rounds;
  const auto elapsed = static_cast<double>(deps_.console.clock->NowNs() - started_ns_) * 1e-9;
  const double per_round = elapsed / static_cast<double>(report.round - first_round_);
  std::string line = fmt::format("round {}/{}", report.round, rounds);
  if (report.metrics.contains("games")) {
    line +=
        fmt::format("  reward {:.3f}  wins {:.1f} %", Ratio(report.metrics, "reward_sum", "games"),
                    100 * Ratio(report.metrics, "wins", "games"));
  }
  line += fmt::format("  gate {:.1f} %  view {:.2f} %  received {}  patch {}  {}/round, {} left",
                      100 * report.gate_density, 100 * report.view_change_density,
                      FormatBytes(report.traffic.received), FormatBytes(last_patch_bytes_),
                      FormatSeconds(per_round),
                      FormatSeconds(per_round * static_cast<double>(rounds - report.round)));
  live_.Show(line);
}

}  // namespace pulse
