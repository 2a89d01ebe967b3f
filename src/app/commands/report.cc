#include <fmt/format.h>

#include "app/command_line.h"
#include "app/run_report.h"
#include "app/run_summary.h"

namespace pulse {
namespace {

Status Report(Environment& env, const std::vector<std::string>& paths) {
  std::vector<RunSummary> runs;
  for (const std::string& path : paths) {
    auto run = SummarizeRun(*env.filesystem, path);
    if (run.status().code() == absl::StatusCode::kNotFound) {
      return NotFound("{}: no metrics.jsonl there; expected the run.dir of a training run", path);
    }
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  fmt::print("{}", env.console.json ? SummaryJson(runs) : SummaryTable(runs));
  return OkStatus();
}

}  // namespace

void AddReport(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand("report", "The closing table of one run, or several");
  auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("RUN", *paths, "Folder of a training run (its run.dir)")->required();
  AddConsoleOptions(*command, env.console);
  command->callback(
      [&env, &chosen, paths] { chosen = [&env, paths] { return Report(env, *paths); }; });
}

}  // namespace pulse
