#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "kernels/kernels.h"
#include "sync/diff_apply.h"

namespace pulse {
namespace {

struct DiffArguments {
  std::string before, after, out, codec = "small";
  uint64_t memory_mib = 512;
  PatchFileOptions options;
};

void Print(const Console& console, std::string_view verb, const std::string& out,
           const PatchFileResult& r) {
  if (console.json) {
    const nlohmann::json json = {{"path", out},
                                 {"patch_bytes", r.patch_bytes},
                                 {"view_bytes", r.view_bytes},
                                 {"changed", r.changed},
                                 {"elements", r.elements},
                                 {"base_digest", r.base_digest.Hex()},
                                 {"target_digest", r.target_digest.Hex()}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  const auto share = [](uint64_t part, uint64_t whole) {
    return whole ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  fmt::print("{} {}: {} of {} elements differ ({:.3f} %), patch {} of {} ({:.3f} %)\n", verb, out,
             r.changed, r.elements, share(r.changed, r.elements), FormatBytes(r.patch_bytes),
             FormatBytes(r.view_bytes), share(r.patch_bytes, r.view_bytes));
  fmt::print("base   {}\ntarget {}\n", r.base_digest.Hex(), r.target_digest.Hex());
}

// Runs one of the two library calls with a bar that appears once the size is known.
Status RunWithBar(Environment& env, std::string_view verb, const std::string& out,
                  PatchFileOptions options, uint64_t memory_mib,
                  const std::function<StatusOr<PatchFileResult>(const PatchFileOptions&)>& call) {
  options.threads = ThreadsWithin(memory_mib, options.threads);
  options.memory_bytes = BlobBytes(memory_mib, options.threads);
  std::unique_ptr<ProgressBar> bar;
  options.progress = [&](uint64_t done, uint64_t total) {
    if (bar == nullptr) {
      bar = std::make_unique<ProgressBar>(env.console, std::string(verb), total);
    }
    bar->Update(done);
  };
  const auto result = call(options);
  bar.reset();
  PULSE_RETURN_IF_ERROR(result.status());
  Print(env.console, verb, out, *result);
  return OkStatus();
}

Status Diff(Environment& env, const DiffArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  PatchFileOptions chosen = a.options;
  chosen.codec = a.codec == "fast" ? RangeCodec::kFast : RangeCodec::kSmall;
  return RunWithBar(
      env, "wrote", a.out, chosen, a.memory_mib, [&](const PatchFileOptions& options) {
        return DiffCheckpoints(*env.filesystem, kernels, a.before, a.after, a.out, options);
      });
}

Status Apply(Environment& env, const DiffArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  return RunWithBar(
      env, "rebuilt", a.out, a.options, a.memory_mib, [&](const PatchFileOptions& options) {
        return ApplyPatch(*env.filesystem, kernels, a.before, a.after, a.out, options);
      });
}

}  // namespace

void AddDiff(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("diff", "Write the change between two checkpoints as a patch file");
  auto a = std::make_shared<DiffArguments>();
  command->add_option("BEFORE", a->before, "Checkpoint: .safetensors file or folder")->required();
  command->add_option("AFTER", a->after, "Checkpoint of the same schema")->required();
  command->add_option("-o,--out", a->out, "Patch file to write (replaced if it exists)")
      ->required();
  command->add_option("--codec", a->codec, "small: fewest bytes; fast: zstd")
      ->check(CLI::IsMember({"fast", "small"}))
      ->capture_default_str();
  AddMemoryOption(*command, a->memory_mib);
  AddThreadCountOption(*command, a->options.threads);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Diff(env, *a); }; });
}

void AddApply(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand("apply", "Rebuild a checkpoint from its base and a patch");
  auto a = std::make_shared<DiffArguments>();
  command->add_option("BASE", a->before, "The checkpoint that the patch was made from")->required();
  command->add_option("PATCH", a->after, "Patch file")->required();
  command->add_option("-o,--out", a->out, "Checkpoint to write (replaced if it exists)")
      ->required();
  AddMemoryOption(*command, a->memory_mib);
  AddThreadCountOption(*command, a->options.threads);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Apply(env, *a); }; });
}

}  // namespace pulse
