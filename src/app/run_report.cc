#include "app/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "app/console.h"

namespace pulse {
namespace {

using nlohmann::json;

std::string RatioText(double larger, double smaller) {
  return smaller > 0 ? fmt::format("{:.1f} x", larger / smaller) : "-";
}

std::string BytesText(double bytes) {
  return FormatBytes(static_cast<uint64_t>(bytes));
}

// One row: what it is, and its value for a run ("" leaves the row out when no run has it).
struct Row {
  std::string_view name;
  std::function<std::string(const RunSummary&)> value;
};

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"mode", [](const RunSummary& r) { return r.mode + (r.finished ? "" : " (unfinished)"); }},
      {"trainers K, local steps H",
       [](const RunSummary& r) { return fmt::format("{}, {}", r.trainers, r.local_steps); }},
      {"parameters", [](const RunSummary& r) { return fmt::format("{}", r.parameters); }},
      {"rounds, time",
       [](const RunSummary& r) {
         return fmt::format("{}, {}", r.rounds, FormatSeconds(r.seconds));
       }},
      {"win rate before",
       [](const RunSummary& r) { return r.has_initial ? WinRateText(r.initial) : ""; }},
      {"win rate after",
       [](const RunSummary& r) { return r.has_final ? WinRateText(r.final) : ""; }},
      {"  rise / its standard error",
       [](const RunSummary& r) {
         return r.has_initial && r.has_final
                    ? fmt::format("{:.1f}", Significance(r.initial, r.final))
                    : "";
       }},
      {"gate passes",
       [](const RunSummary& r) { return fmt::format("{:.2f} %", 100 * r.gate_density); }},
      {"view changes per round",
       [](const RunSummary& r) { return fmt::format("{:.2f} %", 100 * r.view_density); }},
      {"received per rank and round",
       [](const RunSummary& r) { return BytesText(r.exchange_bytes); }},
      {"  bytes per entry",
       [](const RunSummary& r) {  // of a sparse update; elsewhere everything is sent
         return r.mode == "pulseloco" ? fmt::format("{:.2f}", r.bytes_per_entry) : "";
       }},
      {"  dense DiLoCo, same H",
       [](const RunSummary& r) {
         return fmt::format("{} ({})", BytesText(r.dense_diloco_bytes),
                            RatioText(r.dense_diloco_bytes, r.exchange_bytes));
       }},
      {"  DDP, same H",
       [](const RunSummary& r) {
         return fmt::format("{} ({})", BytesText(r.ddp_bytes),
                            RatioText(r.ddp_bytes, r.exchange_bytes));
       }},
      {"versions published",
       [](const RunSummary& r) { return r.versions ? fmt::format("{}", r.versions) : ""; }},
      {"patch, mean",
       [](const RunSummary& r) { return r.versions ? BytesText(r.patch_bytes) : ""; }},
      {"  full BF16 checkpoint",
       [](const RunSummary& r) {
         return r.versions
                    ? fmt::format("{} ({})", FormatBytes(r.checkpoint_bytes),
                                  RatioText(static_cast<double>(r.checkpoint_bytes), r.patch_bytes))
                    : "";
       }},
      {"digest, trainers",
       [](const RunSummary& r) {
         return r.versions ? r.last_digest + " at " + r.last_version : "";
       }},
  };
  return rows;
}

}  // namespace

std::string SummaryTable(const std::vector<RunSummary>& runs) {
  constexpr size_t kNameWidth = 30;
  std::vector<size_t> widths(runs.size(), 0);
  for (const Row& row : Rows()) {
    for (size_t i = 0; i < runs.size(); ++i) {
      widths[i] = std::max(widths[i], row.value(runs[i]).size() + 2);
    }
  }
  std::string out;
  for (const Row& row : Rows()) {
    std::string line = fmt::format("{:<{}}", row.name, kNameWidth);
    bool any = false;
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::string value = row.value(runs[i]);
      any |= !value.empty();
      line += fmt::format("{:<{}}", value.empty() ? "-" : value, widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (any) out += line + "\n";
  }
  for (const RunSummary& run : runs) {
    for (const FollowerSummary& f : run.followers) {
      out += fmt::format("{:<30}{} at {}\n", "digest, " + f.name, f.last_digest, f.last_version);
      out += fmt::format("{:<30}{} versions rebuilt, {} differ; fetched {}\n", "", f.versions,
                         f.mismatches, FormatBytes(f.bytes_fetched));
      if (f.has_evaluation) {
        out += fmt::format("{:<30}win rate {} from its rebuilt file ({} games)\n", "",
                           WinRateText(f.evaluation), f.evaluation.games);
      }
    }
  }
  return out;
}

namespace {

json ToJson(const WinRate& rate) {
  return {{"games", rate.games},
          {"wins", rate.wins},
          {"rate", rate.rate()},
          {"standard_error", rate.standard_error()},
          {"mean_reward", rate.mean_reward()}};
}

json ToJson(const FollowerSummary& f) {
  json out = {{"name", f.name},
              {"versions", f.versions},
              {"mismatches", f.mismatches},
              {"last_version", f.last_version},
              {"last_digest", f.last_digest},
              {"bytes_fetched", f.bytes_fetched}};
  if (f.has_evaluation) out["evaluation"] = ToJson(f.evaluation);
  return out;
}

json ToJson(const RunSummary& r) {
  json out = {{"path", r.path},
              {"mode", r.mode},
              {"finished", r.finished},
              {"trainers", r.trainers},
              {"local_steps", r.local_steps},
              {"parameters", r.parameters},
              {"rounds", r.rounds},
              {"seconds", r.seconds},
              {"gate_density", r.gate_density},
              {"view_density", r.view_density},
              {"received_bytes_per_round", r.exchange_bytes},
              {"bytes_per_entry", r.bytes_per_entry},
              {"dense_diloco_bytes", r.dense_diloco_bytes},
              {"ddp_bytes", r.ddp_bytes},
              {"versions", r.versions},
              {"patch_bytes", r.patch_bytes},
              {"checkpoint_bytes", r.checkpoint_bytes},
              {"last_version", r.last_version},
              {"last_digest", r.last_digest},
              {"followers", json::array()}};
  if (r.has_initial) out["initial"] = ToJson(r.initial);
  if (r.has_final) out["final"] = ToJson(r.final);
  if (r.has_initial && r.has_final) out["significance"] = Significance(r.initial, r.final);
  for (const FollowerSummary& f : r.followers) out["followers"].push_back(ToJson(f));
  return out;
}

}  // namespace

std::string SummaryJson(const std::vector<RunSummary>& runs) {
  json out = json::array();
  for (const RunSummary& run : runs) out.push_back(ToJson(run));
  return (runs.size() == 1 ? out[0] : out).dump(2) + "\n";
}

}  // namespace pulse
