#include "sync/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "app/parts.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

struct VerifyArguments {
  std::string bucket, trust_key;
  std::vector<std::string> runs;
  uint64_t memory_mib = 512;
  int threads = 0;
};

nlohmann::json ToJson(const std::string& run, const VerifyReport& r,
                      const std::vector<std::string>& beside) {
  return {{"run", run},
          {"versions", r.versions},
          {"objects", r.objects},
          {"bytes", r.bytes},
          {"problems", r.problems},
          {"orphans", r.orphans},
          {"not_verified", beside}};
}

void Print(const std::string& run, const VerifyReport& r) {
  fmt::print("{}: {} versions rebuilt from {} objects ({}), {} problems, {} orphans\n", run,
             r.versions, r.objects, FormatBytes(r.bytes), r.problems.size(), r.orphans.size());
  for (const std::string& problem : r.problems) fmt::print("  problem: {}\n", problem);
  for (const std::string& orphan : r.orphans) fmt::print("  orphan: {}\n", orphan);
}

Status Verify(Environment& env, VerifyArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  PULSE_ASSIGN_OR_RETURN(const auto store,
                         OpenBucket(a.bucket, BucketAccess::kExisting, *env.filesystem, env.clock));
  if (a.runs.empty()) {
    PULSE_ASSIGN_OR_RETURN(a.runs, ListRuns(*store));
    if (a.runs.empty()) return NotFound("{}: no run is published there", store->uri());
  }
  PULSE_ASSIGN_OR_RETURN(const std::string trusted, ReadTrustedKey(*env.filesystem, a.trust_key));
  PULSE_ASSIGN_OR_RETURN(const std::vector<std::string> beside, ListBesideRuns(*store));
  size_t problems = 0;
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& run : a.runs) {
    auto bar = std::make_unique<ProgressBar>(env.console, "verify " + run, 0);
    PULSE_ASSIGN_OR_RETURN(const VerifyReport report,
                           VerifyRun(*store, kernels,
                                     {.chain = {.run = run, .trusted_key = trusted},
                                      .threads = ThreadsWithin(a.memory_mib, a.threads),
                                      .progress = [&bar](uint64_t done) { bar->Update(done); }}));
    bar.reset();
    problems += report.problems.size();
    if (env.console.json) {
      all.push_back(ToJson(run, report, beside));
    } else {
      Print(run, report);
    }
  }
  if (env.console.json) fmt::print("{}\n", all.dump(2));
  if (!env.console.json && !beside.empty()) {
    fmt::print(
        "not verified, as beside the runs: {}; a copy in another format is checked as "
        "follow --format rebuilds it\n",
        fmt::join(beside, ", "));
  }
  if (problems > 0) {
    return DataLoss("{}: {} problems; publish a new anchor, or restore the objects", store->uri(),
                    problems);
  }
  return OkStatus();
}

}  // namespace

void AddVerify(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "verify", "Read a whole bucket: is every byte of every version what it claims?");
  auto a = std::make_shared<VerifyArguments>();
  command->add_option("BUCKET", a->bucket, "URI or path of the bucket")->required();
  command->add_option("--run", a->runs, "Only this run (may be repeated); all by default");
  command->add_option("--trust-key", a->trust_key, "Ed25519 public key (PEM): refuse all else");
  AddMemoryOption(*command, a->memory_mib);
  AddThreadCountOption(*command, a->threads);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Verify(env, *a); }; });
}

}  // namespace pulse
