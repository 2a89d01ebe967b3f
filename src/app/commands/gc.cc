#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "app/parts.h"
#include "sync/retention.h"
#include "sync/verify.h"

namespace pulse {
namespace {

struct GcArguments {
  std::string bucket;
  bool dry_run = false;
  double keep_hours = 0;
  double min_age_minutes = 60;
  RetentionOptions retention;
};

nlohmann::json ToJson(const std::vector<GcItem>& items) {
  nlohmann::json out = nlohmann::json::array();
  for (const GcItem& item : items) {
    out.push_back({{"key", item.key}, {"bytes", item.bytes}, {"why", item.why}});
  }
  return out;
}

void Print(const GcPlan& plan, bool dry_run, const std::vector<std::string>& beside) {
  for (const GcItem& item : plan.remove) {
    fmt::print("{} {} ({}): {}\n", dry_run ? "would remove" : "remove", item.key,
               FormatBytes(item.bytes), item.why);
  }
  for (const GcItem& item : plan.spared) {
    fmt::print("spared {} ({}): {}\n", item.key, FormatBytes(item.bytes), item.why);
  }
  fmt::print("{} {} objects, {}; {} versions stay, the oldest is number {}\n",
             dry_run ? "would remove" : "removing", plan.remove.size(), FormatBytes(plan.bytes),
             plan.kept_versions, plan.oldest_kept);
  if (!beside.empty()) {
    fmt::print(
        "left alone, as beside the runs: {}; copies in other formats are for you to remove\n",
        fmt::join(beside, ", "));
  }
}

Status Gc(Environment& env, GcArguments& a) {
  constexpr double kMsPerMinute = 60'000;
  a.retention.keep_age_ms = static_cast<int64_t>(a.keep_hours * 60 * kMsPerMinute);
  a.retention.min_age_ms = static_cast<int64_t>(a.min_age_minutes * kMsPerMinute);
  PULSE_ASSIGN_OR_RETURN(const auto store,
                         OpenBucket(a.bucket, BucketAccess::kExisting, *env.filesystem, env.clock));
  PULSE_ASSIGN_OR_RETURN(const GcPlan plan, PlanGc(*store, env.clock, a.retention));
  PULSE_ASSIGN_OR_RETURN(const std::vector<std::string> beside, ListBesideRuns(*store));
  if (!env.console.json) Print(plan, a.dry_run, beside);
  GcResult result;
  if (!a.dry_run) result = ExecuteGc(*store, plan);
  if (env.console.json) {
    const nlohmann::json json = {{"dry_run", a.dry_run},
                                 {"remove", ToJson(plan.remove)},
                                 {"spared", ToJson(plan.spared)},
                                 {"kept_versions", plan.kept_versions},
                                 {"oldest_kept", plan.oldest_kept},
                                 {"removed", result.removed},
                                 {"removed_bytes", result.bytes},
                                 {"errors", result.errors},
                                 {"left_alone", beside}};
    fmt::print("{}\n", json.dump(2));
  }
  if (!result.errors.empty()) {
    return Unavailable("{}: {} of {} objects could not be removed, first: {}; run gc again",
                       store->uri(), result.errors.size(), plan.remove.size(), result.errors[0]);
  }
  return OkStatus();
}

}  // namespace

void AddGc(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand("gc", "Remove versions and left-overs nobody needs");
  auto a = std::make_shared<GcArguments>();
  command->add_option("BUCKET", a->bucket, "URI or path of the bucket")->required();
  command->add_option("--run", a->retention.chain.run, "Run in the bucket")->capture_default_str();
  command->add_flag("--dry-run", a->dry_run, "Only say what would be removed");
  command->add_option("--keep", a->retention.keep_versions, "Newest versions to keep")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--keep-hours", a->keep_hours, "Also keep what is younger")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--min-age-minutes", a->min_age_minutes,
                   "Never remove what is younger: a reader may be fetching it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Gc(env, *a); }; });
}

}  // namespace pulse
