#include "sync/foreign/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "app/interrupt.h"
#include "app/parts.h"
#include "app/scratch_folder.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

constexpr std::string_view kNative = "pulse";

struct ConvertArguments {
  std::string source, from = std::string(kNative), to, out, base, prefix, run = "main", work,
                      trust_key, log_level = "warn";
  uint64_t memory_mib = 512;
  bool single_writer = false;
};

// What of the memory bound a decoder of foreign bytes and encoded bytes may take: the rest is two
// cells, buffers and the program itself.
uint64_t Spare(uint64_t memory_mib) {
  return BlobBytes(memory_mib, 1) / 2;
}

StatusOr<std::unique_ptr<ChainInput>> OpenInput(Environment& env, const ConvertArguments& a,
                                                Store& store, const kernels::KernelTable& kernels) {
  if (a.from == kNative) {
    if (!a.base.empty()) return InvalidArgument("--base: a native run starts from no other model");
    PULSE_ASSIGN_OR_RETURN(const std::string trusted, ReadTrustedKey(*env.filesystem, a.trust_key));
    return OpenNativeChain(store, *env.filesystem, kernels, {.run = a.run, .trusted_key = trusted});
  }
  PULSE_ASSIGN_OR_RETURN(const ForeignChoice choice, ChooseForeignFormat(a.from));
  PULSE_ASSIGN_OR_RETURN(const std::string prefix, ForeignPrefix(a.prefix));
  return OpenForeignChain(store, *env.filesystem, choice.format,
                          {.prefix = prefix, .base = a.base, .decoder_bytes = Spare(a.memory_mib)});
}

StatusOr<ConvertResult> Run(Environment& env, const std::string& work, ChainInput& input,
                            ChainOutput& output) {
  ConvertOptions options;
  options.work = work + "/copies";
  PULSE_RETURN_IF_ERROR(env.filesystem->CreateDirectories(options.work));
  const std::atomic<bool>& stop_requested = CatchInterrupts();
  options.stop = [&stop_requested] { return stop_requested.load(); };
  std::unique_ptr<ProgressBar> bar;
  uint64_t known = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    if (bar == nullptr || total != known) {  // the size of all is known behind the first version
      bar.reset();
      bar = std::make_unique<ProgressBar>(env.console, "convert", total);
      known = total;
    }
    bar->Update(done);
  };
  return ConvertChain(*env.filesystem, input, output, options);
}

// The folder appears when all versions are in it.
StatusOr<ConvertResult> ToForeign(Environment& env, const ConvertArguments& a,
                                  const std::string& work, ChainInput& input,
                                  ForeignChoice choice) {
  Filesystem& fs = *env.filesystem;
  const auto there = fs.List(a.out);
  if (there.ok() ? !there->empty() : !absl::IsNotFound(there.status())) {
    return AlreadyExists("{}: there is something already: give a new folder", a.out);
  }
  const std::string folder = work + "/out";
  PULSE_RETURN_IF_ERROR(fs.CreateDirectories(folder));
  PULSE_RETURN_IF_ERROR(fs.CreateDirectories(work + "/spools"));
  const auto output = MakeForeignOutput(
      fs, std::move(choice),
      {.folder = folder, .spool_path = work + "/spools/", .memory_bytes = Spare(a.memory_mib)});
  PULSE_ASSIGN_OR_RETURN(const ConvertResult result, Run(env, work, input, *output));
  PULSE_RETURN_IF_ERROR(fs.Rename(folder, a.out));
  PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs, ParentFolder(a.out)));
  return result;
}

StatusOr<ConvertResult> ToNative(Environment& env, const ConvertArguments& a,
                                 const std::string& work, ChainInput& input,
                                 const kernels::KernelTable& kernels) {
  PULSE_ASSIGN_OR_RETURN(const auto logger, MakeLogger(a.log_level, ""));
  PULSE_ASSIGN_OR_RETURN(const auto store,
                         OpenBucket(a.out, BucketAccess::kCreate, *env.filesystem, env.clock));
  PublisherOptions options;
  options.run = a.run;
  options.state_directory = work + "/state";
  options.single_writer = a.single_writer;
  options.memory_bytes = Spare(a.memory_mib);
  SystemNonces nonces;
  PULSE_ASSIGN_OR_RETURN(
      const auto publisher,
      Publisher::Open(options, {*store, *env.filesystem, env.clock, nonces, kernels, *logger}));
  if (publisher->head_version()) {
    return AlreadyExists("{}: run \"{}\" has versions already: give another --run or bucket",
                         store->uri(), a.run);
  }
  const auto output = MakeNativeOutput(*publisher);
  return Run(env, work, input, *output);
}

Status Convert(Environment& env, ConvertArguments& a) {
  if (a.from == kNative && a.to == kNative) {
    return InvalidArgument("--to: expected one of {}", fmt::join(ForeignFormatNames(), ", "));
  }
  ForeignChoice choice;
  if (a.to != kNative) {
    PULSE_ASSIGN_OR_RETURN(choice, ChooseForeignFormat(a.to));
  }
  while (a.out.size() > 1 && a.out.ends_with('/')) a.out.pop_back();
  if (a.work.empty()) {
    if (a.out.find("://") != std::string::npos) {
      return InvalidArgument("--work: needed when the output is no plain path");
    }
    a.work = a.out + ".partial";
  }
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  PULSE_ASSIGN_OR_RETURN(const auto store,
                         OpenBucket(a.source, BucketAccess::kExisting, *env.filesystem, env.clock));
  PULSE_ASSIGN_OR_RETURN(const auto input, OpenInput(env, a, *store, kernels));
  PULSE_ASSIGN_OR_RETURN(const auto scratch, ScratchFolder::Make(*env.filesystem, a.work));
  const auto result = a.to == kNative
                          ? ToNative(env, a, scratch->path(), *input, kernels)
                          : ToForeign(env, a, scratch->path(), *input, std::move(choice));
  PULSE_RETURN_IF_ERROR(result.status());
  if (env.console.json) {
    const nlohmann::json json = {{"out", a.out},
                                 {"format", a.to},
                                 {"versions", result->versions},
                                 {"first", result->first},
                                 {"last", result->last},
                                 {"view_bytes", result->view_bytes},
                                 {"digest", result->digest.Hex()}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("wrote {} versions ({} to {}) of {} each as {} to {}\ndigest {}\n", result->versions,
               result->first, result->last, FormatBytes(result->view_bytes), a.to, a.out,
               result->digest.Hex());
  }
  return OkStatus();
}

}  // namespace

void AddConvert(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "convert", "Write a whole chain of versions in the format of another system, or read one");
  const std::string formats =
      fmt::format("pulse, {} (or with an encoding: trl-v3:raw, hf-delta-dir:xor)",
                  fmt::join(ForeignFormatNames(), ", "));
  auto a = std::make_shared<ConvertArguments>();
  command->add_option("SOURCE", a->source, "URI or path of a bucket, or of a foreign folder")
      ->required();
  command->add_option("--to", a->to, formats)->required();
  command->add_option("-o,--out", a->out, "New folder; with --to pulse a bucket, made if missing")
      ->required();
  command->add_option("--from", a->from, "What SOURCE holds: pulse, or a format as for --to")
      ->capture_default_str();
  command->add_option("--prefix", a->prefix, "Where in SOURCE the foreign versions lie");
  command->add_option("--base", a->base,
                      "The receiver's own model (file or folder), where a format starts from it");
  command->add_option("--run", a->run, "Run in the bucket")->capture_default_str();
  command->add_option("--trust-key", a->trust_key, "Ed25519 public key (PEM): refuse all else");
  command->add_flag(
      "--single-writer", a->single_writer,
      "Allow a store without conditional puts: you promise that nobody else publishes");
  command->add_option(
      "--work", a->work,
      "Folder for two copies of the model, made and removed; OUT.partial by default");
  AddMemoryOption(*command, a->memory_mib);
  command->add_option("--log-level", a->log_level, "trace, debug, info, warn, error or off");
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Convert(env, *a); }; });
}

}  // namespace pulse
