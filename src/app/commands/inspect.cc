#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "app/parts.h"
#include "sync/byte_sources.h"
#include "sync/chain.h"
#include "sync/checkpoint.h"
#include "sync/patch.h"
#include "sync/publisher.h"
#include "sync/verify.h"

namespace pulse {
namespace {

using nlohmann::json;

struct InspectArguments {
  std::string what, run;
};

json Describe(const ModelSchema& schema) {
  json tensors = json::array();
  for (const TensorSpec& spec : schema.tensors()) {
    tensors.push_back({{"name", spec.name}, {"dtype", NameOf(spec.dtype)}, {"shape", spec.shape}});
  }
  return {{"tensors", tensors},
          {"aliases", schema.aliases()},
          {"elements", schema.elements()},
          {"bytes", schema.bytes()}};
}

// How many bytes of the model travel in which codec.
json CodecsOf(const PayloadFile& file) {
  json codecs = json::object();
  for (const PayloadRange& range : file.ranges()) {
    const std::string name(NameOf(range.codec));
    codecs[name] = codecs.value(name, uint64_t{0}) + range.range.bytes();
  }
  return codecs;
}

json DescribePayload(const PayloadFile& file) {
  json out = Describe(file.schema());
  const PayloadInfo& info = file.info();
  out["kind"] = NameOf(info.role);
  out["file_bytes"] = file.file_bytes();
  out["run"] = info.run;
  out["base"] = info.base;
  out["target"] = info.target;
  out["target_digest"] = info.target_digest.Hex();
  out["metadata"] = info.extra;
  if (info.role == PayloadRole::kDelta) {
    out["base_digest"] = info.base_digest.Hex();
    out["changed"] = file.changed();
    out["codecs"] = CodecsOf(file);
    const double bits = 8 * static_cast<double>(file.file_bytes());
    out["bits_per_change"] = file.changed() ? bits / static_cast<double>(file.changed()) : 0;
  }
  return out;
}

json DescribeCheckpoint(const Checkpoint& checkpoint) {
  json out = Describe(checkpoint.schema());
  out["kind"] = "checkpoint";
  out["metadata"] = checkpoint.metadata();
  out["digest"] = ViewDigest(checkpoint.view()).Hex();
  return out;
}

json DescribeVersion(const Manifest& m) {
  return {{"version", m.id.Short()},
          {"created_unix_ms", m.created_unix_ms},
          {"digest", m.target_digest.Hex()},
          {"delta_bytes", m.bytes(PayloadRole::kDelta)},
          {"anchor_bytes", m.bytes(PayloadRole::kAnchor)},
          {"changed", m.changed},
          {"codec", m.codec},
          {"anchor_reason", m.reason},
          {"signed", m.signature.has_value()},
          {"metadata", m.metadata}};
}

StatusOr<json> DescribeRun(Store& store, const std::string& run) {
  PULSE_ASSIGN_OR_RETURN(ChainReader chain, ChainReader::Open(store, {.run = run}));
  PULSE_ASSIGN_OR_RETURN(const HeadAt head, chain.Head());
  json out = {{"run", run}, {"epoch", head.head.epoch}, {"versions", json::array()}};
  if (!head.head.version) return out;
  PULSE_ASSIGN_OR_RETURN(const auto manifests,
                         chain.Walk(*head.head.version, [](const Manifest&) { return false; }));
  for (const Manifest& manifest : manifests) out["versions"].push_back(DescribeVersion(manifest));
  return out;
}

void PrintModel(const std::string& what, const json& d) {
  fmt::print("{}: {}, {} tensors, {} elements, {}\n", what, d["kind"].get<std::string>(),
             d["tensors"].size(), d["elements"].get<uint64_t>(),
             FormatBytes(d["bytes"].get<uint64_t>()));
  for (const char* key : {"digest", "base_digest", "target_digest", "run", "base", "target"}) {
    if (d.contains(key) && d[key] != "") {
      fmt::print("  {:<14}{}\n", key, d[key].get<std::string>());
    }
  }
  if (d.contains("changed")) {
    fmt::print("  {:<14}{} elements, {:.2f} bits each in this file\n", "changed",
               d["changed"].get<uint64_t>(), d["bits_per_change"].get<double>());
  }
  if (d.contains("codecs")) {
    for (const auto& [name, bytes] : d["codecs"].items()) {
      fmt::print("  {:<14}{} of the model in {}\n", "codec", FormatBytes(bytes.get<uint64_t>()),
                 name);
    }
  }
  for (const auto& [key, value] : d["metadata"].items()) {
    fmt::print("  {:<14}{} = {}\n", "metadata", key, value.get<std::string>());
  }
  for (const json& t : d["tensors"]) {
    fmt::print("  {:<8} [{}]  {}\n", t["dtype"].get<std::string>(),
               fmt::join(t["shape"].get<std::vector<uint64_t>>(), ", "),
               t["name"].get<std::string>());
  }
}

void PrintRun(const json& run) {
  fmt::print("run {}: epoch {}, {} versions kept, newest first\n", run["run"].get<std::string>(),
             run["epoch"].get<uint64_t>(), run["versions"].size());
  fmt::print("  {:<10} {:>10} {:<6} {:>10} {:>12}  {}\n", "version", "delta", "codec", "anchor",
             "changed", "digest");
  for (const json& v : run["versions"]) {
    const auto anchor = v["anchor_bytes"].get<uint64_t>();
    const std::string codec = v["codec"].get<std::string>();
    fmt::print("  {:<10} {:>10} {:<6} {:>10} {:>12}  {}\n", v["version"].get<std::string>(),
               FormatBytes(v["delta_bytes"].get<uint64_t>()), codec.empty() ? "-" : codec,
               anchor ? FormatBytes(anchor) : "-", v["changed"].get<uint64_t>(),
               v["digest"].get<std::string>());
    const std::string reason = v["metadata"].value(kCodecReasonKey, "");
    if (!reason.empty()) fmt::print("  {:<10} {}\n", "", reason);
  }
}

Status InspectFile(Environment& env, const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(const DirectoryEntry entry, env.filesystem->Stat(path));
  PULSE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(*env.filesystem, path));
  json description;
  if (entry.kind == DirectoryEntry::Kind::kFile &&
      checkpoint->metadata().contains(kPayloadFormatKey)) {
    PULSE_ASSIGN_OR_RETURN(const auto source, MappedSource::Open(*env.filesystem, path));
    const auto payload = PayloadFile::Open(source);
    if (!payload.ok()) return Annotate(payload.status(), path);
    description = DescribePayload(**payload);
  } else {
    description = DescribeCheckpoint(*checkpoint);
  }
  if (env.console.json) {
    fmt::print("{}\n", description.dump(2));
  } else {
    PrintModel(path, description);
  }
  return OkStatus();
}

Status InspectBucket(Environment& env, Store& store, const std::string& only_run) {
  std::vector<std::string> runs = {only_run};
  if (only_run.empty()) {
    PULSE_ASSIGN_OR_RETURN(runs, ListRuns(store));
    if (runs.empty()) return NotFound("{}: no run is published there", store.uri());
  }
  json all = json::array();
  for (const std::string& run : runs) {
    PULSE_ASSIGN_OR_RETURN(json description, DescribeRun(store, run));
    if (!env.console.json) PrintRun(description);
    all.push_back(std::move(description));
  }
  if (env.console.json) fmt::print("{}\n", all.dump(2));
  return OkStatus();
}

// A folder with runs/ in it is a bucket; any other path is a checkpoint or a patch.
Status Inspect(Environment& env, const InspectArguments& a) {
  const bool is_uri = a.what.find("://") != std::string::npos;
  if (!is_uri && !env.filesystem->Stat(a.what + "/runs").ok()) return InspectFile(env, a.what);
  PULSE_ASSIGN_OR_RETURN(const auto store,
                         OpenBucket(a.what, BucketAccess::kExisting, *env.filesystem, env.clock));
  return InspectBucket(env, *store, a.run);
}

}  // namespace

void AddInspect(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("inspect", "What is in a checkpoint, a patch file or a bucket");
  auto a = std::make_shared<InspectArguments>();
  command->add_option("WHAT", a->what, "File, checkpoint folder, or bucket (URI or path)")
      ->required();
  command->add_option("--run", a->run, "Of a bucket: only this run");
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Inspect(env, *a); }; });
}

}  // namespace pulse
