#include "app/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "app/facts.h"
#include "collective/mpi/mpi_communicator.h"

namespace pulse {
namespace {

using nlohmann::json;

// One rank's checks as they travel: the failing rank's words are shown by rank 0.
Bytes Encode(const std::vector<Check>& checks) {
  json rows = json::array();
  for (const Check& check : checks) {
    rows.push_back(
        {{"check", check.name},
         {"ok", check.status.ok()},
         {"code", static_cast<int>(check.status.code())},
         {"says", check.status.ok() ? check.fact : std::string(ToStd(check.status.message()))}});
  }
  const std::string text = rows.dump();
  return Bytes(text.begin(), text.end());
}

// A line a check: all of rank 0's, and what fails elsewhere.
json Rows(const std::vector<Bytes>& all, const Communicator& communicator) {
  json rows = json::array();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const json theirs = json::parse(AsText(all[rank]), nullptr, false);
    if (theirs.is_discarded()) continue;
    for (json row : theirs) {
      if (rank > 0 && row["ok"].get<bool>()) continue;
      row["rank"] = rank;
      row["host"] = communicator.HostOf(static_cast<int>(rank));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Status Verdict(const json& rows) {
  const auto failed = [](const json& row) { return !row["ok"].get<bool>(); };
  const auto count = std::count_if(rows.begin(), rows.end(), failed);
  if (count == 0) return OkStatus();
  const json& first = *std::find_if(rows.begin(), rows.end(), failed);
  return Status(static_cast<absl::StatusCode>(first["code"].get<int>()),
                fmt::format("doctor: {} of {} checks failed, first: {}", count, rows.size(),
                            first["check"].get<std::string>()));
}

void Print(const json& rows, bool as_json) {
  if (as_json) return fmt::print("{}\n", rows.dump(2));
  for (const json& row : rows) {
    const auto rank = row["rank"].get<size_t>();
    fmt::print("{:<5} {:<8} {}{}\n", row["ok"].get<bool>() ? "ok" : "FAIL",
               row["check"].get<std::string>(),
               rank > 0 ? fmt::format("rank {} ({}): ", rank, row["host"].get<std::string>())
                        : std::string(),
               row["says"].get<std::string>());
  }
}

Status Doctor(Environment& env, const std::string& path,
              const std::vector<std::string>& overrides) {
  constexpr int64_t kTimeoutMs = 120'000;
  if (path.empty()) {
    const json rows = json::parse(AsText(Encode(CheckMachine())));
    json named = json::array();
    for (json row : rows) {
      row["rank"] = 0;
      named.push_back(std::move(row));
    }
    Print(named, env.console.json);
    return Verdict(named);
  }
  PULSE_ASSIGN_OR_RETURN(const auto session, MpiSession::Start(env.clock));
  PULSE_ASSIGN_OR_RETURN(const auto communicator,
                         OpenMpiCommunicator(*session, {}, Deadline::After(env.clock, kTimeoutMs)));
  const auto config = LoadConfig(*env.filesystem, path, overrides);
  const std::vector<Check> mine =
      CheckRun(config, {*communicator, *env.filesystem, env.clock, AvailableMemory});
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(
      communicator->AllGather(Encode(mine), all, Deadline::After(env.clock, kTimeoutMs)));
  const json rows = Rows(all, *communicator);
  if (communicator->rank() == 0) Print(rows, env.console.json);
  // Rank 0 speaks for all.
  return communicator->rank() == 0 ? Verdict(rows) : OkStatus();
}

}  // namespace

void AddDoctor(CLI::App& app, Environment& env, Action& chosen) {
  struct Arguments {
    std::string config;
    std::vector<std::string> overrides;
  };
  CLI::App* command = app.add_subcommand(
      "doctor", "Would a training run start here? One line a check; exit code 0 if all hold");
  auto a = std::make_shared<Arguments>();
  command->add_option("CONFIG", a->config, "Configuration of the run; none: the machine alone");
  command->add_option("--set", a->overrides, "Override a key, as of train");
  AddConsoleOptions(*command, env.console);
  command->callback(
      [&env, &chosen, a] { chosen = [&env, a] { return Doctor(env, a->config, a->overrides); }; });
}

}  // namespace pulse
