#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/command_line.h"
#include "app/duration.h"
#include "app/evaluation.h"
#include "app/interrupt.h"
#include "app/metrics_file.h"
#include "app/parts.h"
#include "inference_bridge/follow_loop.h"
#include "inference_bridge/foreign_follower.h"
#include "kernels/kernels.h"
#include "sync/foreign/formats.h"

namespace pulse {
namespace {

using nlohmann::json;

struct FollowArguments {
  std::string bucket, trust_key, record, evaluate, poll = "1s", log_level = "warn";
  std::string layout = "file";
  std::string format, prefix, base;  // of another system
  uint64_t memory_mib = 512;
  bool once = false;
  std::optional<uint64_t> version;
  FollowerOptions follower;
  FollowLoopOptions loop;
};

json ToJson(const FollowResult& r) {
  return {{"type", "version"},
          {"version", r.version.id.Short()},
          {"digest", r.digest.Hex()},
          {"changed", r.changed},
          {"from", r.from_anchor ? "anchor" : "chain"},
          {"versions_applied", r.versions},
          {"bytes_fetched", r.bytes},
          {"view_bytes", r.view_bytes},
          {"fetch_seconds", r.fetch_seconds},
          {"rebuild_seconds", r.rebuild_seconds},
          {"swap_seconds", r.swap_seconds},
          {"metadata", r.metadata}};
}

// One JSON record a line, for scripts and the closing table. Goes on behind what an earlier
// follower of this output wrote.
class Record {
 public:
  static StatusOr<Record> Open(Filesystem& fs, const std::string& path) {
    Record record;
    if (path.empty()) return record;
    constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
    PULSE_ASSIGN_OR_RETURN(record.file_, MetricsFile::Continue(fs, path, kAll, 0));
    return record;
  }
  Status Append(const json& line) { return file_ ? file_->Append(line.dump()) : OkStatus(); }

 private:
  std::unique_ptr<MetricsFile> file_;
};

void Print(const Console& console, const FollowResult& r) {
  if (console.json) {
    fmt::print("{}\n", ToJson(r).dump());
  } else if (r.changed) {
    fmt::print(
        "version {} in place: {} {}, fetched {} for {} of weights, {}\n", r.version.id.Short(),
        r.versions, r.from_anchor ? "from an anchor" : "by delta", FormatBytes(r.bytes),
        FormatBytes(r.view_bytes),
        FormatSeconds(r.plan_seconds + r.fetch_seconds + r.rebuild_seconds + r.swap_seconds));
  } else {
    fmt::print("version {} is in place already\n", r.version.id.Short());
  }
  std::fflush(stdout);
}

// Bars for fetching and rebuilding; a new one with each phase.
class PhaseBars {
 public:
  explicit PhaseBars(const Console& console) : console_(console) {}
  void Update(FollowPhase phase, uint64_t done, uint64_t total) {
    if (!bar_ || phase != phase_) {
      constexpr const char* kNames[] = {"verify", "fetch", "rebuild"};
      bar_.reset();  // finishes its line before the next one starts
      bar_ = std::make_unique<ProgressBar>(console_, kNames[static_cast<int>(phase)], total);
      phase_ = phase;
    }
    bar_->Update(done);
  }
  void Finish() { bar_.reset(); }

 private:
  const Console& console_;
  FollowPhase phase_ = FollowPhase::kVerify;
  std::unique_ptr<ProgressBar> bar_;
};

// The weights of the output, whichever layout it has, on the task of a run's configuration.
Status EvaluateOutput(Environment& env, const FollowArguments& a, Record& record) {
  PULSE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(*env.filesystem, a.evaluate, {}));
  PULSE_ASSIGN_OR_RETURN(const Metrics metrics,
                         EvaluateCheckpoint(*env.filesystem, config, a.follower.output));
  fmt::print("{}", EvaluationText(metrics, env.console.json));
  return record.Append(
      {{"type", "evaluation"}, {"samples", config.evaluate.samples}, {"metrics", metrics}});
}

Status ReadOptions(Environment& env, FollowArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const uint64_t poll_ms, ParseDurationMs(a.poll));
  if (poll_ms < 1) return InvalidArgument("--poll {}: expected at least 1ms", a.poll);
  a.loop.poll_ms = static_cast<int64_t>(poll_ms);
  a.follower.threads = ThreadsWithin(a.memory_mib, a.follower.threads);
  a.follower.memory_bytes = a.memory_mib << 20;
  a.follower.layout = a.layout == "folder" ? OutputLayout::kFolder : OutputLayout::kFile;
  PULSE_ASSIGN_OR_RETURN(a.follower.trusted_key, ReadTrustedKey(*env.filesystem, a.trust_key));
  return OkStatus();
}

// Once or for as long as asked; shows and records what comes.
Status Run(Environment& env, FollowArguments& a, Record& record, PhaseBars& bars, Logger& logger,
           const FollowStep& step, const Output& output) {
  a.loop.on_version = [&](const FollowResult& result) {
    bars.Finish();
    Print(env.console, result);
    return record.Append(ToJson(result));
  };
  if (!a.once && !a.version) return FollowLoop(step, output, env.clock, logger, a.loop);
  PULSE_ASSIGN_OR_RETURN(
      const FollowResult result,
      step(a.version ? FollowTarget::Number(*a.version) : FollowTarget::Newest()));
  return a.loop.on_version(result);
}

Status RunForeignFollower(Environment& env, FollowArguments& a, Store& store, Record& record) {
  if (!a.trust_key.empty()) return InvalidArgument("--trust-key: {} is not signed", a.format);
  PULSE_ASSIGN_OR_RETURN(const ForeignChoice choice, ChooseForeignFormat(a.format));
  PULSE_ASSIGN_OR_RETURN(const auto logger, MakeLogger(a.log_level, ""));
  PhaseBars bars(env.console);
  ForeignFollowerOptions options;
  options.format = choice.format;
  PULSE_ASSIGN_OR_RETURN(options.prefix, ForeignPrefix(a.prefix));
  options.base = a.base;
  options.output = a.follower.output;
  options.layout = a.follower.layout;
  options.decoder_bytes = BlobBytes(a.memory_mib, 1);
  options.progress = [&bars](FollowPhase phase, uint64_t done, uint64_t total) {
    bars.Update(phase, done, total);
  };
  options.stop = a.follower.stop;
  PULSE_ASSIGN_OR_RETURN(
      const auto follower,
      ForeignFollower::Open(std::move(options), {store, *env.filesystem, env.clock, *logger}));
  return Run(
      env, a, record, bars, *logger,
      [&](const FollowTarget& target) { return follower->Step(target); }, follower->output());
}

Status RunFollower(Environment& env, FollowArguments& a, Store& store, Record& record) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  PULSE_ASSIGN_OR_RETURN(const auto logger, MakeLogger(a.log_level, ""));
  PhaseBars bars(env.console);
  a.follower.progress = [&bars](FollowPhase phase, uint64_t done, uint64_t total) {
    bars.Update(phase, done, total);
  };
  PULSE_ASSIGN_OR_RETURN(
      const auto follower,
      Follower::Open(a.follower, {store, *env.filesystem, env.clock, kernels, *logger}));
  return Run(
      env, a, record, bars, *logger,
      [&](const FollowTarget& target) { return follower->Step(target); }, follower->output());
}

Status Follow(Environment& env, FollowArguments& a) {
  const std::atomic<bool>& stop_requested = CatchInterrupts();
  a.follower.stop = a.loop.stop = [&stop_requested] { return stop_requested.load(); };
  PULSE_RETURN_IF_ERROR(ReadOptions(env, a));
  std::unique_ptr<Store> store;
  const auto open = [&]() -> Status {
    PULSE_ASSIGN_OR_RETURN(
        store, OpenBucket(a.bucket, BucketAccess::kExisting, *env.filesystem, env.clock));
    return OkStatus();
  };
  PULSE_RETURN_IF_ERROR(a.loop.wait_for_bucket ? WaitUntilThere(env.clock, a.loop, open) : open());
  PULSE_ASSIGN_OR_RETURN(Record record, Record::Open(*env.filesystem, a.record));
  PULSE_RETURN_IF_ERROR(a.format.empty() ? RunFollower(env, a, *store, record)
                                         : RunForeignFollower(env, a, *store, record));
  return a.evaluate.empty() ? OkStatus() : EvaluateOutput(env, a, record);
}

}  // namespace

void AddFollow(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "follow", "Keep a local copy of a run's weights at the version its bucket names");
  auto a = std::make_shared<FollowArguments>();
  command->add_option("--bucket", a->bucket, "URI or path of the bucket")->required();
  command->add_option("--run", a->follower.run, "Run in the bucket")->capture_default_str();
  command->add_option("--out", a->follower.output, "Safetensors file (or folder) to keep current")
      ->required();
  command
      ->add_option("--layout", a->layout, "file; or folder: OUT is a symlink to versioned folders")
      ->check(CLI::IsMember({"file", "folder"}))
      ->capture_default_str();
  auto* once = command->add_flag("--once", a->once, "Catch up and stop");
  command->add_option("--version", a->version, "Take version N and stop")->excludes(once);
  command->add_flag("--every-version", a->loop.every_version, "Rebuild each version in turn");
  command->add_flag("--until-final", a->loop.until_final, "Stop at the run's last version");
  command->add_flag("--wait", a->loop.wait_for_bucket,
                    "Wait for a bucket or run that is not there");
  command->add_option("--poll", a->poll, "Pause between looks at the head: 200ms, 5s")
      ->capture_default_str();
  auto* format = command->add_option(
      "--format", a->format,
      fmt::format("Follow what another system writes: {}", fmt::join(ForeignFormatNames(), ", ")));
  command->add_option("--prefix", a->prefix, "Where in the bucket its versions lie")->needs(format);
  command
      ->add_option("--base", a->base,
                   "The receiver's own model (file or folder), where the format starts from it")
      ->needs(format);
  command->add_option("--trust-key", a->trust_key, "Ed25519 public key (PEM): refuse all else");
  AddMemoryOption(*command, a->memory_mib);
  AddThreadCountOption(*command, a->follower.threads);
  command->add_option("--record", a->record, "Append one JSON record per version to this file");
  command->add_option("--evaluate", a->evaluate,
                      "At the end, measure the rebuilt weights on the task of this configuration");
  command->add_option("--log-level", a->log_level, "trace, debug, info, warn, error or off");
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Follow(env, *a); }; });
}

}  // namespace pulse
