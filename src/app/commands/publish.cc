#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/agree.h"
#include "app/command_line.h"
#include "app/joint_publisher.h"
#include "app/parts.h"
#include "app/ranks.h"
#include "app/retain.h"
#include "app/upload_bars.h"
#include "kernels/kernels.h"
#include "sync/checkpoint.h"
#include "sync/foreign/mirror.h"
#include "sync/publisher.h"

namespace pulse {
namespace {

struct PublishArguments {
  std::string bucket, model, codec = "auto", log_level = "warn", sign_key;
  uint64_t keep = 0;
  uint64_t memory_mib = 512;
  std::vector<std::string> also;
  bool joint = false;
  PublisherOptions publisher;
  PublishOptions publish;
};

using Mirrors = std::vector<std::unique_ptr<ForeignMirror>>;

nlohmann::json ToJson(const Manifest& m, const Mirrors& mirrors) {
  nlohmann::json json = {{"run", m.run},
                         {"version", m.id.Short()},
                         {"digest", m.target_digest.Hex()},
                         {"changed", m.changed},
                         {"codec", m.codec},
                         {"delta_bytes", m.bytes(PayloadRole::kDelta)},
                         {"anchor_bytes", m.bytes(PayloadRole::kAnchor)},
                         {"anchor_reason", m.reason}};
  for (const auto& mirror : mirrors) {
    json["also"].push_back({{"format", mirror->format()},
                            {"prefix", mirror->prefix()},
                            {"bytes", mirror->bytes()},
                            {"full", mirror->full()}});
  }
  return json;
}

void Print(const Console& console, const Manifest& m, const Mirrors& mirrors) {
  if (console.json) {
    fmt::print("{}\n", ToJson(m, mirrors).dump(2));
    return;
  }
  fmt::print(
      "published {} version {}: {} elements changed, delta {}{}\ndigest {}\n", m.run, m.id.Short(),
      m.changed, FormatBytes(m.bytes(PayloadRole::kDelta)),
      m.has(PayloadRole::kAnchor)
          ? fmt::format(", anchor {} ({})", FormatBytes(m.bytes(PayloadRole::kAnchor)), m.reason)
          : "",
      m.target_digest.Hex());
  for (const auto& mirror : mirrors) {
    fmt::print("also as {} below \"{}\": {}{}\n", mirror->format(), mirror->prefix(),
               FormatBytes(mirror->bytes()), mirror->full() ? ", full" : "");
  }
}

// "FORMAT[:ENCODING][=PREFIX]", each beside the native objects.
StatusOr<Mirrors> MakeMirrors(const PublishArguments& a, Store& store, Filesystem& fs) {
  Mirrors mirrors;
  for (const std::string& text : a.also) {
    const size_t equals = text.find('=');
    PULSE_ASSIGN_OR_RETURN(ForeignChoice choice, ChooseForeignFormat(text.substr(0, equals)));
    ForeignMirrorOptions options;
    PULSE_ASSIGN_OR_RETURN(
        options.prefix,
        ForeignPrefix(equals == std::string::npos
                          ? fmt::format("{}/{}", choice.format->name(), a.publisher.run)
                          : text.substr(equals + 1)));
    options.memory_bytes = a.publisher.memory_bytes;
    const std::string& state = a.publisher.state_directory;
    if (!state.empty()) options.spool_path = fmt::format("{}/also-{}-", state, mirrors.size());
    mirrors.push_back(
        std::make_unique<ForeignMirror>(store, fs, std::move(choice), std::move(options)));
  }
  return mirrors;
}

Status ReadOptions(Environment& env, PublishArguments& a) {
  PULSE_ASSIGN_OR_RETURN(a.publisher.signing_key, ReadSigningKey(*env.filesystem, a.sign_key));
  PULSE_ASSIGN_OR_RETURN(a.publisher.codec, CodecSettingFromName(a.codec));
  a.publisher.threads = ThreadsWithin(a.memory_mib, a.publisher.threads);
  a.publisher.memory_bytes =
      BlobBytes(a.memory_mib, a.publisher.threads) / (1 + uint64_t{a.also.size()});
  a.publisher.base = BaseKeeping::kInBucket;  // a copy in memory would break the bound
  return OkStatus();
}

Status Publish(Environment& env, PublishArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  PULSE_ASSIGN_OR_RETURN(const auto logger, MakeLogger(a.log_level, ""));
  PULSE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(*env.filesystem, a.model));
  PULSE_ASSIGN_OR_RETURN(const auto bucket,
                         OpenBucket(a.bucket, BucketAccess::kCreate, *env.filesystem, env.clock));
  UploadBars store(*bucket, env.console);
  PULSE_RETURN_IF_ERROR(ReadOptions(env, a));
  SystemNonces nonces;
  PULSE_ASSIGN_OR_RETURN(
      const auto publisher,
      Publisher::Open(a.publisher, {store, *env.filesystem, env.clock, nonces, kernels, *logger}));
  PULSE_ASSIGN_OR_RETURN(const Mirrors mirrors, MakeMirrors(a, store, *env.filesystem));
  const ModelViewSource view(checkpoint->view());
  const uint64_t bytes = checkpoint->schema().bytes();
  const uint64_t number = publisher->head_version() ? publisher->head_version()->id.number + 1 : 1;
  for (const auto& mirror : mirrors) {
    ProgressBar bar(env.console, fmt::format("encode {}", mirror->format()), bytes);
    const auto encode = [&] {
      return mirror->Encode(number, publisher->base().view(), view,
                            [&bar](uint64_t done) { bar.Update(done); });
    };
    Status encoded = encode();
    if (absl::IsDataLoss(encoded) && publisher->base().view() != nullptr) {
      publisher->base().Drop();  // the last version is damaged: whole copies of this one heal that
      encoded = encode();
    }
    PULSE_RETURN_IF_ERROR(encoded);
  }
  auto bar = std::make_unique<ProgressBar>(env.console, "publish", bytes);
  a.publish.progress = [&bar, bytes](uint64_t done) {
    if (bar == nullptr) return;
    bar->Update(done);
    if (done >= bytes) bar.reset();  // finishes its line before those of uploads start
  };
  PULSE_ASSIGN_OR_RETURN(const Published published, publisher->Publish(view, a.publish));
  bar.reset();
  for (const auto& mirror : mirrors) PULSE_RETURN_IF_ERROR(mirror->Write(published.manifest));
  Print(env.console, published.manifest, mirrors);
  if (a.keep > 0) RetainNewest(store, a.publisher.run, a.keep, env.clock, *logger);
  return OkStatus();
}

// As one of several ranks, which share the tensors.
Status PublishJointly(Environment& env, PublishArguments& a) {
  constexpr int64_t kTimeoutMs = 3'600'000;  // of a wait for the rank with the slowest upload
  return RunAsRank(env, [&](MpiSession&, Communicator& communicator) -> Status {
    const bool first = communicator.rank() == 0;
    if (!first) env.console.progress = ShowProgress::kNever;
    std::unique_ptr<Checkpoint> checkpoint;
    std::unique_ptr<Store> bucket;
    std::shared_ptr<Logger> logger;
    std::unique_ptr<JointPublisher> publisher;
    SystemNonces nonces;
    kernels::KernelTable kernels;
    std::unique_ptr<UploadBars> store;
    const auto open = [&]() -> Status {
      if (!a.also.empty()) {
        return InvalidArgument("--also: other formats are written by one process");
      }
      PULSE_ASSIGN_OR_RETURN(kernels, kernels::ChooseKernels("auto"));
      PULSE_ASSIGN_OR_RETURN(logger, MakeLogger(a.log_level, ""));
      PULSE_ASSIGN_OR_RETURN(checkpoint, Checkpoint::Open(*env.filesystem, a.model));
      PULSE_ASSIGN_OR_RETURN(
          bucket, OpenBucket(a.bucket, BucketAccess::kCreate, *env.filesystem, env.clock));
      store = std::make_unique<UploadBars>(*bucket, env.console);
      PULSE_RETURN_IF_ERROR(ReadOptions(env, a));
      PULSE_ASSIGN_OR_RETURN(
          publisher,
          JointPublisher::Open(&communicator, checkpoint->schema(), a.publisher,
                               {*store, *env.filesystem, env.clock, nonces, kernels, *logger},
                               kTimeoutMs));
      return OkStatus();
    };
    const Status opened = open();
    PULSE_RETURN_IF_ERROR(Agree(communicator, opened.ok() ? StatusOr<Bytes>(Bytes()) : opened,
                                Deadline::After(env.clock, kTimeoutMs))
                              .status());
    const ModelViewSource view(checkpoint->view());
    if (!first) return publisher->Join(view).status();
    PULSE_ASSIGN_OR_RETURN(const Published published, publisher->Publish(view, a.publish));
    Print(env.console, published.manifest, {});
    if (a.keep > 0) RetainNewest(*store, a.publisher.run, a.keep, env.clock, *logger);
    return OkStatus();
  });
}

}  // namespace

void AddPublish(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("publish", "Publish a checkpoint as the next version of a run");
  auto a = std::make_shared<PublishArguments>();
  command
      ->add_option("--bucket", a->bucket, "URI or path of the bucket; a folder is made if missing")
      ->required();
  command->add_option("--model", a->model, "Checkpoint: .safetensors file or folder")->required();
  command->add_option("--run", a->publisher.run, "Run in the bucket")->capture_default_str();
  command->add_flag("--anchor", a->publish.anchor,
                    "Also write a full copy; needed when tensors were added, removed or reshaped");
  command->add_option("--codec", a->codec, "How the delta is coded")
      ->check(CLI::IsMember({"auto", "fast", "small"}))
      ->capture_default_str();
  command->add_option("--state", a->publisher.state_directory,
                      "Folder for a copy of the last version, so that the next publish need not "
                      "rebuild it from the bucket");
  command->add_flag(
      "--single-writer", a->publisher.single_writer,
      "Allow a store without conditional puts: you promise that nobody else publishes");
  command->add_flag("--joint", a->joint,
                    "Under mpirun: all ranks publish one version, each its share of the tensors");
  command->add_option("--sign-key", a->sign_key,
                      "Ed25519 private key (PEM) to sign manifests with");
  command
      ->add_option("--anchor-share", a->publisher.anchor_share,
                   "New anchor when the deltas since the last weigh this share of it")
      ->capture_default_str();
  command->add_option("--keep", a->keep,
                      "Then remove older versions than the newest N, as gc does; 0: none");
  command->add_option(
      "--also", a->also,
      fmt::format("Also write the version as FORMAT[:ENCODING][=PREFIX], beside the "
                  "native objects (may be repeated): {}; PREFIX is FORMAT/RUN by "
                  "default",
                  fmt::join(ForeignFormatNames(), ", ")));
  AddMemoryOption(*command, a->memory_mib);
  AddThreadCountOption(*command, a->publisher.threads);
  command->add_option("--log-level", a->log_level, "trace, debug, info, warn, error or off");
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] {
    chosen = [&env, a] { return a->joint ? PublishJointly(env, *a) : Publish(env, *a); };
  });
}

}  // namespace pulse
